"""A whole study in a few records: what the report is tested on, and what a developer can look at."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from trace_assets.diagnosis.contrast import contrast
from trace_assets.diagnosis.selection import select
from trace_assets.evaluation.summary import summarise
from trace_assets.records import (
    Adapter,
    Agreement,
    BaseCheckpoint,
    Capability,
    Environment,
    EnvironmentCheck,
    Evaluation,
    Label,
    LabelLeak,
    LedgerEntry,
    MessageRow,
    NoHarm,
    Route,
    RouterRegret,
    RouterScore,
    Stability,
    ToolCall,
    TrainingPoint,
    Triage,
)
from trace_assets.report.data import ReportData
from trace_assets.report.samples import Sample
from trace_assets.settings import ContrastSection, EvaluationSection, Selection
from trace_assets.statistics.wilson import wilson

SKILLS = ("cancel", "multi", "window", "address", "exchange", "status")
NAMES = {
    "cancel": "Looks up an order before cancelling it",
    "multi": "Finishes every request of a message <b>&</b> 'both'",
    "window": "Refuses a refund when the window is closed",
    "polite": "Ends with a farewell",
    "rare": "Repeats a failed call with other arguments",
}
LEVEL = {"attacker": "adversarial", "mutation": "mutation", "latency": "runtime"}
LONG = 9 * "|a_long_name_without_spaces"
SOLVED = {"cancel": 0.35, "multi": 0.3, "window": 0.5, "address": 0.95, "exchange": 0.92, "status": 0.97}


def _talk(trajectory: str, capability: str) -> tuple[MessageRow, ...]:
    call = ToolCall(
        id="1", name="cancel_order", arguments={"order": "7731", "why": "<script>alert(1)</script>"}
    )
    turns = [
        {"role": "user", "content": "Please cancel order 7731 and send 7732 to Lisbon. </style><img src=x>"},
        {"role": "assistant", "content": "", "tool_calls": (call,)},
        {"role": "tool", "content": '{"error": "shipped"}', "tool_name": "cancel_order", "is_error": True},
        {"role": "assistant", "content": "Done. " + 90 * "It is cancelled. "},
    ]
    return tuple(MessageRow(trajectory_id=trajectory, index=i, **turn) for i, turn in enumerate(turns))


def _leak(channel: str, auc: float | None) -> LabelLeak:
    low, high = (None, None) if auc is None else (auc - 0.1, auc + 0.1)
    counts = {"n_pairs": 900, "n_passed": 240, "n_failed": 120, "n_tasks": 200}
    told = {"judged": channel != "opening", "leaks": channel == "replies", "within_task": False}
    bounds = {"auc": auc, "auc_low": low, "auc_high": high}
    return LabelLeak.model_validate({"target": "embedded", "channel": channel, **bounds, **counts, **told})


@pytest.fixture(scope="session")
def diagnosed() -> ReportData:
    """A store after `trace diagnose`."""
    rng = random.Random(0)
    triage, labels = [], []
    for i in range(400):
        skill = SKILLS[i % 6]
        passed = rng.random() < SOLVED[skill]
        fault = None if passed else rng.choices(("agent", "user_simulator", "infrastructure"), (20, 2, 1))[0]
        name = f"r{i:03}"
        triage.append(
            Triage.model_validate(
                {
                    "trajectory_id": name,
                    "target": "embedded",
                    "task_id": f"embedded/{i // 2:03}{LONG}",
                    "outcome": "passed" if passed else "unjudged" if fault == "infrastructure" else "failed",
                    "fault": fault,
                    "rule": "test",
                }
            )
        )
        for capability in NAMES:
            lacks = rng.random() < (0.1 if passed else 0.85)
            if capability == "polite":
                value = "LACKING" if rng.random() < 0.3 else "PRESENT"
            elif capability == "rare":
                value = "LACKING" if skill == "cancel" and not passed and rng.random() < 0.3 else "NA"
            else:
                value = "NA" if skill != capability else "LACKING" if lacks else "PRESENT"
            labels.append(
                Label.model_validate(
                    {
                        "trajectory_id": name,
                        "capability_id": capability,
                        "labeller": "detectors",
                        "label": value,
                        "evidence": (1, 2) if value == "LACKING" else (),
                        "rationale": "cancel_order without get_order" if value == "LACKING" else "",
                    }
                )
            )
    contrasts = contrast(labels, triage, ContrastSection(resamples=300, permutations=300), "embedded")
    capabilities = [
        Capability(
            capability_id=one,
            target="embedded",
            name=name,
            description=f"In tasks that need it, the agent {name.lower()}.",
            analyst="detectors",
            detector="write_without_read",
            n_proposals=40,
        )
        for one, name in NAMES.items()
    ]
    selected = select(contrasts, capabilities, labels, triage, Selection())
    outcome = {row.trajectory_id: row for row in triage}
    samples = [
        Sample(label, outcome[label.trajectory_id], _talk(label.trajectory_id, label.capability_id))
        for capability in NAMES
        for label in [one for one in labels if one.capability_id == capability and one.label == "LACKING"][:3]
    ]
    return ReportData(
        triage=triage, capabilities=capabilities, contrasts=contrasts, selected=selected, samples=samples
    )


@pytest.fixture(scope="session")
def complete(diagnosed: ReportData) -> ReportData:
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
                    "rollouts": 2816,
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
