"""What a store holds after the whole loop, in a few records."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from tests.report.diagnosed_study import NAMES, SKILLS, SOLVED
from trace_assets.evaluation.non_inferiority import summarise
from trace_assets.records import (
    Adapter,
    Agreement,
    BaseCheckpoint,
    Environment,
    EnvironmentCheck,
    Evaluation,
    LabelLeak,
    LedgerEntry,
    NoHarm,
    Route,
    RouterRegret,
    RouterScore,
    Stability,
    TrainingPoint,
)
from trace_assets.report.data import ReportData
from trace_assets.settings import EvaluationSection
from trace_assets.stats.intervals import wilson

LEVEL = {"attacker": "adversarial", "mutation": "mutation", "latency": "runtime"}


def _leak(channel: str, auc: float | None) -> LabelLeak:
    low, high = (None, None) if auc is None else (auc - 0.1, auc + 0.1)
    counts = {"n_pairs": 900, "n_passed": 240, "n_failed": 120, "n_tasks": 200}
    told = {"judged": channel != "opening", "leaks": channel == "replies", "within_task": False}
    bounds = {"auc": auc, "auc_low": low, "auc_high": high}
    return LabelLeak.model_validate({"target": "embedded", "channel": channel, **bounds, **counts, **told})


def taught_study(diagnosed: ReportData) -> ReportData:
    """A store after the whole loop."""
    rng = random.Random(1)
    taught = ("cancel", "multi", "window")
    rows, routes = [], []
    arms = ("base", "routed", "oracle_routed", "mixed_grpo", *(f"adapter:{one}" for one in taught))
    for task in range(240):
        skill = SKILLS[task % 6]
        right = skill if skill in taught else "none"
        sent = right if rng.random() < 0.93 else rng.choice((*taught, "none"))
        routes.append(
            Route(
                router="classifier", task_id=f"e/{task}", choice=sent, probabilities={sent: 0.9, "rest": 0.1}
            )
        )
        routes.append(
            Route(router="label_logits", task_id=f"e/{task}", choice="none", probabilities={"none": 1.0})
        )
        for arm in arms:
            adapter = {"base": None, "routed": sent, "oracle_routed": right, "mixed_grpo": "mixed"}.get(
                arm, arm.removeprefix("adapter:")
            )
            adapter = None if adapter == "none" else adapter
            rate = 0.95 if adapter in (skill, "mixed") else SOLVED[skill] - (0.1 if adapter else 0)
            for trial in range(4):
                broke = rng.random() < 0.004
                success = None if broke else rng.random() < rate
                rows.append(
                    Evaluation(
                        task_id=f"e/{task}",
                        trial=trial,
                        arm=arm,
                        adapter=adapter,
                        success=success,
                        reward=None if success is None else float(success),
                        fault="infrastructure" if broke else None,
                        skill=skill,
                    )
                )
    environments, checks, adapters, curves, harm = [], [], [], [], []
    for one in (*taught, "mixed"):
        before, after = SOLVED.get(one, 0.5), 0.97
        (low_1, high_1), (low_2, high_2) = wilson(round(64 * before), 64), wilson(62, 64)
        adapters.append(
            Adapter.model_validate(
                {
                    "adapter_id": f"{one}0123456789abcdef",
                    "name": one,
                    "kind": "mixed" if one == "mixed" else "capability",
                    "capability_id": None if one == "mixed" else one,
                    "environment_id": None if one == "mixed" else f"env-{one}",
                    "base_id": "base",
                    "path": f"models/{one}",
                    "iterations": 22,
                    "best_iteration": 18,
                    "rollouts": 2816 * (len(taught) if one == "mixed" else 1),
                    "validation_before": before,
                    "validation_before_low": low_1,
                    "validation_before_high": high_1,
                    "validation_after": after,
                    "validation_after_low": low_2,
                    "validation_after_high": high_2,
                    "validation_n": 64,
                    "seconds": 41.5,
                }
            )
        )
        for iteration in range(22):
            rate = before + (after - before) * min(1.0, iteration / 14)
            curves.append(
                TrainingPoint(
                    name=one,
                    iteration=iteration,
                    reward_mean=rate,
                    reward_std=0.2,
                    success_rate=rate,
                    n=128,
                    dead_groups=0.2,
                    validation_rate=rate if iteration % 6 == 0 else None,
                    validation_n=64 if iteration % 6 == 0 else None,
                )
            )
        if one == "mixed":
            continue
        environments.append(
            Environment(
                environment_id=f"env-{one}",
                capability_id=one,
                target="embedded",
                writer=f"recipe:{one}",
                source="print('<i>')",
            )
        )
        for check, status, value, evidence in (
            ("semantic.oracle_max", "pass", 1.0, ""),
            ("semantic.floor_gap", "pass", 0.02, "silence 0.02"),
            ("trace.pass_band", "pass", before, "30 of 64 succeed, 95 % interval [0.351, 0.589]"),
            (
                "trace.dead_groups",
                "fail" if one == "window" else "pass",
                0.7 if one == "window" else 0.3,
                "95 % interval [0.2, 0.4]",
            ),
            ("trace.latency", "skip", None, "no clock"),
            ("trace.attacker.spam_all", "pass", 0.167, "mean reward 0.167, success 0%, oracle 1"),
            ("trace.attacker.echo", "pass", 0.0, "</td><script>alert(1)</script> \u202e"),
            ("trace.mutation.kill_rate", "pass", 0.975, "drop_write 16/16, swap_id 15/16"),
        ):
            checks.append(
                EnvironmentCheck.model_validate(
                    {
                        "environment_id": f"env-{one}",
                        "capability_id": one,
                        "check_id": check,
                        "level": LEVEL.get(check.split(".")[1], "semantic"),
                        "low": None if value is None else max(0.0, value - 0.1),
                        "high": None if value is None else min(1.0, value + 0.1),
                        "policy_version": "2",
                        "status": status,
                        "severity": "error",
                        "value": value,
                        "n": 64,
                        "bound": "<= 0.6",
                        "evidence": evidence,
                    }
                )
            )
        harm.append(
            NoHarm.model_validate(
                {
                    "adapter": one,
                    "own_skills": (one,),
                    "own_n": 30,
                    "own_base": before,
                    "own_adapter": after,
                    "own_delta": after - before,
                    "own_delta_low": 0.3,
                    "own_delta_high": 0.6,
                    "other_n": 120,
                    "other_base": 0.8,
                    "other_adapter": 0.7,
                    "other_delta": -0.1,
                    "other_delta_low": -0.15,
                    "other_delta_high": -0.05,
                    "verdict": "harmful",
                    "reason": "other tasks -10 points",
                }
            )
        )
    start = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    stages = ("rollouts", "diagnosis", "synthesis", "training", "routing", "evaluation", "report")
    ledger = [
        LedgerEntry(
            recorded_at=start + timedelta(minutes=place),
            stage=stage,
            asset=stage,
            kind=kind,
            quantity=quantity,
            unit="s" if kind != "rollouts" else "episodes",
            run_id="x",
        )
        for place, stage in enumerate(stages)
        for kind, quantity in (("wall", 10.0 * (place + 1)), ("cpu", 9.0 * (place + 1)), ("rollouts", 800.0))
    ]
    return ReportData(
        **{
            name: getattr(diagnosed, name)
            for name in ("triage", "capabilities", "contrasts", "selected", "samples")
        },
        agreement=[
            Agreement(
                capability_id="cancel",
                target="embedded",
                between="labellers",
                coders="detectors, model",
                alpha=0.71,
                alpha_low=0.6,
                alpha_high=0.8,
                n_items=390,
                n_coders=2,
            )
        ],
        stability=[
            Stability(
                capability_id="multi",
                target="embedded",
                name=NAMES["multi"],
                rediscovers=True,
                n_resamples=50,
                discovered=0.98,
                discovered_low=0.9,
                discovered_high=1.0,
                kept=0.86,
                kept_low=0.74,
                kept_high=0.93,
                gap_mean=0.7,
                gap_sd=0.05,
                n_shuffles=40,
                null_kept=0.025,
                null_kept_high=0.13,
                null_any=0.05,
                null_any_low=0.01,
                null_any_high=0.17,
                null_mean=0.05,
            )
        ],
        leaks=[_leak("opening", 0.5), _leak("replies", 0.83), _leak("closing", None)],
        also_lacking={"cancel": ("r390", "r396")},
        environments=environments,
        checks=checks,
        base_models=[
            BaseCheckpoint(
                base_id="base",
                path="models/base",
                parameters=370_000,
                steps=1600,
                pass_rate=0.5,
                pass_rate_low=0.45,
                pass_rate_high=0.55,
                n=400,
            )
        ],
        adapters=adapters,
        curves=curves,
        harm=harm,
        routes=routes,
        router_scores=[
            RouterScore(
                router="classifier",
                split="test",
                n=240,
                accuracy=0.94,
                accuracy_low=0.90,
                accuracy_high=0.97,
                calibration_error=0.04,
                majority_share=0.5,
            ),
            RouterScore(
                router="label_logits",
                split="test",
                n=0,
                accuracy=None,
                accuracy_low=None,
                accuracy_high=None,
                calibration_error=None,
                majority_share=None,
            ),
        ],
        regrets=[
            RouterRegret(
                router="classifier",
                split="test",
                reference="oracle",
                choice="",
                n_tasks=240,
                router_rate=0.9,
                reference_rate=0.93,
                regret=0.03,
                regret_low=0.01,
                regret_high=0.05,
            )
        ],
        evaluations=rows,
        summary=summarise(rows, EvaluationSection(resamples=300)),
        ledger=ledger,
    )
