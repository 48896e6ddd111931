"""What each arm took, against figures counted by hand; and plans and worlds of before it was kept apart."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.tournament.test_tournament import RATES, planned, scripted
from trace_assets.cli.main import app
from trace_assets.records import (
    Adapter,
    CompositionChoice,
    Evaluation,
    Pilot,
    PilotPoint,
    Round,
    SeedOutcome,
    TrainingPoint,
)
from trace_assets.settings import Settings
from trace_assets.store import Home, Store
from trace_assets.store.history import record
from trace_assets.study import Study
from trace_assets.tournament.arms.protocol import VERDICTS, PlayedWorld
from trace_assets.tournament.page import page
from trace_assets.tournament.plan import PLAN, REGISTER, Plan, read_plan
from trace_assets.tournament.results import SPENDING, Spent, mean_spending, result_file, spent_in
from trace_assets.tournament.run import run, world_home
from trace_assets.tournament.score import score

OLD_PLAN = {
    "settings": {},
    "worlds": [
        {"number": n, "base_seed": 399 + n, "target_seed": 399 + n, "training_seed": 399 + n}
        for n in range(1, 7)
    ],
    "primary": [{"arm": "routed", "rival": "mixed_grpo"}, {"arm": "routed", "rival": "base"}],
    "secondary": [{"arm": "routed", "rival": "oracle_routed"}, {"arm": "mixed_grpo", "rival": "base"}],
    "predictions": [
        {
            "comparison": "routed - base",
            "says": "better",
            "because": "its environments pay what is lacking",
        }
    ],
    "margin": 0.02,
    "alpha": 0.05,
    "sd": 0.023,
}
"""A plan as it was written before plans could name further arms, and what it was registered as."""
OLD_FINGERPRINT = "be2f4e83caa307cf01f15694298bbf2dc145812c381e9481804b43799c17e6ab"


@pytest.mark.ci
def test_a_plan_that_was_registered_before_is_still_the_one_that_was_registered(tmp_path: Path) -> None:
    (tmp_path / PLAN).write_text(json.dumps(OLD_PLAN, indent=1))
    entry = {"fingerprint": OLD_FINGERPRINT, "at": "2026-11-23T08:57:30+00:00", "why": "", "worlds_seen": 0}
    (tmp_path / REGISTER).write_text(json.dumps([entry]))
    plan = read_plan(tmp_path)
    assert plan.fingerprint == OLD_FINGERPRINT == Plan.model_validate(OLD_PLAN).fingerprint
    run(tmp_path, play=scripted(RATES))
    shutil.rmtree(tmp_path / SPENDING)
    for number in range(1, 7):  # as worlds were bound to their plan then
        (world_home(tmp_path, number) / "registration.json").write_text(
            json.dumps({"plan": OLD_FINGERPRINT}) + "\n"
        )
    assert run(tmp_path, play=scripted(RATES)) == []
    scored = score(tmp_path)
    assert scored.is_due and scored.other_plans == []
    assert "Amended" not in page(scored)


def adapter(name: str, kind: str, rollouts: int, **more: Any) -> Adapter:
    given: dict[str, Any] = {
        "adapter_id": name,
        "name": name,
        "kind": kind,
        "capability_id": name if kind == "capability" else None,
        "environment_id": None,
        "base_id": "b",
        "path": name,
        "iterations": 2,
        "best_iteration": 2,
        "rollouts": rollouts,
        "validation_before": 0.5,
        "validation_before_low": 0.4,
        "validation_before_high": 0.6,
        "validation_after": 0.9,
        "validation_after_low": 0.8,
        "validation_after_high": 1.0,
        "validation_n": 50,
    }
    return Adapter(**{**given, **more})


def booked(store: Store, asset: str, partition: str = "", **kinds: float) -> None:
    units = {"rollouts": "episodes", "wall": "s", "cpu": "s"}
    quantities = {(kind, units.get(kind, kind)): value for kind, value in kinds.items() if kind != "usd"}
    record(store, quantities, stage="s", asset=asset, partition=partition, cost_usd=kinds.get("usd", 0.0))


def episodes(split: str, arms: Mapping[str, int]) -> list[Evaluation]:
    return [
        Evaluation(task_id=f"t{n}", trial=0, arm=arm, adapter=None, success=True, reward=1.0, split=split)
        for arm, count in arms.items()
        for n in range(count)
    ]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return the home of a world with two adapters, an arm of its own and a joint one."""
    home = Home.open(tmp_path / "home")
    store = Store.of(home)
    store.write([adapter("x", "capability", 128), adapter("y", "capability", 256)], Adapter, "c")
    store.write([adapter("mixed", "mixed", 384)], Adapter, "mixed")
    store.write([adapter("joint", "joint", 384)], Adapter, "joint_adapters")
    for name, looked in (("x", 64), ("y", 64), ("mixed", 60), ("joint", 30)):
        points = [
            TrainingPoint(
                name=name,
                iteration=n,
                reward_mean=0.5,
                reward_std=0.1,
                success_rate=0.5,
                n=64,
                dead_groups=0.0,
                validation_n=looked if n == 2 else None,
            )
            for n in (1, 2)
        ]
        store.write(points, TrainingPoint, name)
    for name, n in (("x", 7), ("y", 9)):
        seeds = [
            SeedOutcome(
                capability_id=name,
                environment_id=name,
                seed=s,
                n=8,
                passed=4,
                pass_rewards=(),
                fail_rewards=(),
            )
            for s in range(n)
        ]
        store.write(seeds, SeedOutcome, name)
        pilot = Pilot(
            capability_id=name,
            environment_id=name,
            outcome="transfers",
            goes_on=True,
            reason="r",
            rollouts=48,
            n_checkpoints=4,
            n_seeds=10,
            n_tasks=n,
        )
        store.write([pilot], Pilot, name)
        trials = 1 if name == "x" else 3  # few tasks are played several times at each look
        looks = [
            PilotPoint(
                capability_id=name,
                checkpoint=number,
                rollouts=16 * number,
                reward=0.5,
                success_rate=0.5,
                n_seeds=10,
                target_rate=0.5,
                n_tasks=n,
                n_episodes=trials * n,
            )
            for number in range(4)
        ]
        store.write(looks, PilotPoint, name)
        booked(store, "environment", name, cpu=100.0 if name == "x" else 200.0, wall=1.0)
        booked(store, "environment_audit", name, cpu=10.0, wall=1.0)
        booked(store, "pilot", name, cpu=5.0, rollouts=48.0)
        booked(store, "adapter", name, cpu=30.0 if name == "x" else 40.0, rollouts=1.0)
    booked(store, "base_model", cpu=1e6)
    booked(store, "trajectories", "embedded", cpu=3.0, rollouts=500.0)
    booked(store, "labels", cpu=2.0, model_calls=17.0, usd=0.25)
    booked(store, "curriculum", cpu=0.5)
    booked(store, "interference", cpu=4.0, rollouts=96.0)
    booked(store, "adapter_validation", cpu=6.0, rollouts=1.0)
    booked(store, "routing", cpu=7.0)
    booked(store, "mixed_adapter", cpu=80.0, rollouts=384.0)
    booked(store, "joint_adapters", cpu=70.0, rollouts=384.0)
    booked(store, "evaluation", cpu=1e6, rollouts=1e6)
    arms = {"base": 10, "adapter:x": 10, "routed": 10, "sum": 10, "mixed_grpo": 10, "joint": 10}
    store.write(episodes("test", arms), Evaluation, "test")
    validated = {"base": 20, "adapter:x": 20, "adapter:y": 20, "joint": 20, "sum:x+y": 20}
    store.write(episodes("validation", validated), Evaluation, "validation")
    return home


def found(home: Home) -> dict[tuple[str, str], tuple[float | None, float | None]]:
    return {(row.arm, row.kind): (row.marginal, row.all_in) for row in spent_in(home, 1)}


def test_an_agent_after_rounds_was_trained_on_the_rollouts_of_all(home: Home) -> None:
    nothing: dict[str, Any] = {name: None for name in Round.model_fields}
    texts = dict.fromkeys(("place", "base_id", "agent_id", "detail"), "")
    lists: dict[str, Any] = dict.fromkeys(
        ("found", "taught", "warm_started", "members", "adapter_ids", "paths"), ()
    )
    shared = {**nothing, **texts, **lists, "n": 8, "n_tasks": 4, "taken": True}
    rows = [
        Round(
            **{
                **shared,
                "round": n,
                "last": n == 2,
                "training_rollouts": training,
                "rollouts": 10 * training,
                "cpu_seconds": cpu,
            }
        )
        for n, training, cpu in ((1, 384, 90.0), (2, 256, 50.0))
    ]
    store = Store.of(home)
    store.write(rows, Round)
    store.write(
        episodes("test", {"base": 10, "mixed_grpo": 10, "round:1": 10, "round:2": 10}), Evaluation, "test"
    )
    spent = found(home)
    assert spent["round:1", "training"] == (384, 384) and spent["round:2", "training"] == (640, 640)
    for unknown in ("discovery", "audits", "rollouts in all", "cpu", "dollars", VERDICTS):
        assert spent["round:2", unknown] == (None, None), "it is booked in other homes"
    assert spent["mixed_grpo", "training"] == (384, 384) and spent["mixed_grpo", "cpu"] == (80, 80)


@pytest.mark.parametrize(("ours", "budget"), [("routed", 384), ("composed", 400), ("round:2", 640)])
def test_a_rival_may_spend_what_our_arm_was_trained_on(home: Home, ours: str, budget: int) -> None:
    store = Store.of(home)
    store.write([adapter("joining", "joining", 16)], Adapter, "joining")
    store.write([adapter("mixed", "mixed", 640)], Adapter, "mixed")  # given the rollouts of all rounds
    assert PlayedWorld(1, Study.of(home, Settings()), (), ours=ours).budget == budget


def test_every_kind_of_rollout_is_counted_for_the_arms_that_need_it(home: Home) -> None:
    spent = found(home)
    assert spent["routed", "training"] == (384, 384)
    assert spent["adapter:x", "training"] == (128, 128)
    assert spent["mixed_grpo", "training"] == spent["joint", "training"] == (384, 384)
    assert spent["routed", "discovery"] == (0, 500)
    assert spent["routed", "audits"] == (0, 8 * 16)
    assert spent["adapter:x", "audits"] == (0, 8 * 7)
    assert spent["routed", "pilots"][0] == 2 * 48 + 4 * (17 + 37)
    assert spent["adapter:x", "pilots"][0] == 48 + 4 * 17
    assert spent["routed", "gradient probe"] == (0, 0) and spent["sum", "gradient probe"] == (96, 96)
    assert spent["routed", "checkpoint looks"][0] == 2 * (64 + 100)
    assert spent["mixed_grpo", "checkpoint looks"][0] == 60 + 100
    assert spent["joint", "checkpoint looks"][0] == 30 + 100
    assert [spent[arm, "validation"][0] for arm in ("adapter:x", "routed", "sum", "joint")] == [
        40,
        60,
        80,
        40,
    ]
    assert spent["mixed_grpo", "rollouts in all"] == (384 + 160, 384 + 160)
    marginal = 384 + 312 + 328 + 60
    assert spent["routed", "rollouts in all"] == (marginal, marginal + 500 + 128)
    assert {spent["base", kind] for arm, kind in spent if arm == "base" and kind != "evaluation"} == {(0, 0)}
    assert spent["sum", "evaluation"] == (10, 10)
    judged = {arm: row for (arm, kind), row in spent.items() if kind == VERDICTS}
    assert judged["mixed_grpo"] == (384 + 160, 384 + 160), "the target judges all of direct training"
    assert judged["routed"] == judged["random_routing"] == (4 * (7 + 27) + 60, 4 * (7 + 27) + 60 + 500)
    assert judged["adapter:x"] == (4 * 7 + 40, 4 * 7 + 40 + 500)
    assert judged["joint"] == (40, 540) and judged["base"] == (0, 0)


def test_what_is_released_takes_what_every_candidate_took(home: Home) -> None:
    assert ("released", "training") not in found(home), "nothing was chosen yet"
    choice = {name: None for name in CompositionChoice.model_fields} | {
        "arm": "joint",
        "chosen": True,
        "runner_up": False,
        "refused": "",
        "n_tasks": 20,
        "n_trials": 20,
    }
    Store.of(home).write([CompositionChoice(**choice)], CompositionChoice)
    spent = found(home)
    assert spent["released", "training"] == (128 + 256 + 384, 128 + 256 + 384)
    assert spent["released", "pilots"] == spent["sum", "pilots"]
    assert spent["released", "gradient probe"] == (96, 96)
    assert spent["released", "checkpoint looks"][0] == 2 * (64 + 100) + 130
    assert spent["released", "validation"][0] == 100
    assert spent["released", "cpu"][0] == 5 + 5 + 30 + 40 + 6 + 7 + 4 + 70
    assert spent["released", "discovery"] == (0, 500)


def test_time_and_money_are_booked_to_those_who_need_the_step(home: Home) -> None:
    spent = found(home)
    own = 5 + 5 + 30 + 40 + 6 + 7
    assert spent["routed", "cpu"] == (own, own + 100 + 200 + 20 + 3 + 2 + 0.5)
    assert spent["adapter:x", "cpu"] == (35, 35 + 100 + 10 + 3 + 2 + 0.5)
    assert spent["mixed_grpo", "cpu"] == (80, 80)
    assert spent["joint", "cpu"][0] == 74
    assert spent["routed", "dollars"] == (0, 0.25) and spent["mixed_grpo", "dollars"] == (0, 0)
    assert spent["random_routing", "cpu"] == spent["routed", "cpu"]


def test_what_is_not_recorded_is_no_0(home: Home) -> None:
    spent = found(home)
    assert spent["mixed_grpo", "gpu"] == (None, None) and spent["routed", "tokens of the agent"][1] is None
    assert spent["routed", "requests to models"] == (None, None), "the shared part alone is no sum"
    Store.of(home).write(episodes("test", {"sequential": 10, "round:2": 10}), Evaluation, "more")
    spent = found(home)
    assert spent["joint", "cpu"] == (None, None), "two arms of one step have its time together"
    assert {spent["round:2", kind] for kind in ("training", "rollouts in all", VERDICTS)} == {(None, None)}


def test_before_the_curriculum_nothing_is_known_and_after_it_nothing_was_spent(tmp_path: Path) -> None:
    home = Home.open(tmp_path / "home")
    Store.of(home).write(episodes("test", {"routed": 10}), Evaluation, "test")
    assert found(home)["routed", "training"] == (None, None) == found(home)["routed", VERDICTS]
    booked(Store.of(home), "curriculum", cpu=0.5)
    assert found(home)["routed", "training"] == (0, 0), "nothing is taught"


def test_one_world_without_a_figure_leaves_the_mean_unknown() -> None:
    import polars as pl

    rows = [
        Spent(world=world, arm=arm, kind="cpu", unit="s", marginal=value, all_in=5.0, place=1)
        for world, arm, value in ((1, "a", 2.0), (2, "a", 4.0), (1, "b", 3.0), (2, "b", None))
    ]
    played = [(world, arm) for world in (1, 2) for arm in ("a", "b", "c")]
    means = mean_spending(pl.DataFrame([row.model_dump() for row in rows]), played)
    got = {row["arm"]: (row["marginal"], row["all_in"], row["worlds"]) for row in means.to_dicts()}
    assert got == {"a": (3.0, 5.0, 2), "b": (None, 5.0, 2), "c": (None, None, 2)}


def test_the_page_and_the_report_show_it(tmp_path: Path) -> None:
    planned(tmp_path, 2)
    run(tmp_path, play=scripted(RATES))
    text = page(score(tmp_path))
    assert "| spent by | validation | evaluation | worlds |" in text
    assert "| `routed` | 1 | 200 | 2 |" in text and "| `base` | 0 | 200 | 2 |" in text
    assert "Not recorded of any arm that took some: training, discovery, audits" in text
    told = CliRunner().invoke(app, ["tournament", "report", str(tmp_path), "--json"])
    rows = {(row["arm"], row["kind"]): row for row in json.loads(told.stdout)["spending"]}
    assert rows["routed", "discovery"]["all_in"] is None and rows["base", "training"]["all_in"] == 0
    kept = page(score(tmp_path))
    for number in (1, 2):
        result_file(tmp_path, SPENDING, number).unlink()
    assert page(score(tmp_path)) == kept, "read off the homes where it was not kept apart"
    shutil.rmtree(tmp_path / "worlds")
    assert "What an arm took: not recorded." in page(score(tmp_path))
