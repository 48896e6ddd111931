"""Arms that choose adapters by lot or wrongly, from the episodes of single adapters."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from trace_assets.records import CompositionChoice, Evaluation
from trace_assets.store import Home
from trace_assets.study import Study
from trace_assets.tournament.plan import default_plan
from trace_assets.tournament.results import (
    RANDOM_ROUTING,
    RELEASED,
    RESULTS,
    SWAPPED_ROUTING,
    TaskResult,
    read_rows,
    released_rows,
    routing_controls,
)
from trace_assets.tournament.run import collect, world_home

NAMES = ("cancel", "window", "multi")


def episodes(names: tuple[str, ...] = NAMES, tasks: int = 60) -> list[Evaluation]:
    """Return episodes in which an adapter passes the tasks of its own skill alone, and a router knows it."""
    rows = []
    for n in range(tasks):
        skill = (*names, "status")[n % (len(names) + 1)]
        right = skill if skill in names else None
        for arm, acted in (("base", None), *((f"adapter:{name}", name) for name in names), ("routed", right)):
            rows.append(
                Evaluation(
                    task_id=f"t{n}",
                    trial=0,
                    arm=arm,
                    adapter=acted,
                    success=None if n == 7 else skill in ("status", acted),
                    reward=None,
                    fault="infrastructure" if n == 7 else None,
                    skill=skill,
                )
            )
    return rows


def passed(rows: list[Evaluation], arm: str) -> list[bool]:
    return [row.success for row in rows if row.arm == arm and row.success is not None]


def test_a_swapped_adapter_is_never_the_right_one() -> None:
    rows = routing_controls(episodes(), 0)
    own = [row for row in rows if row.arm == SWAPPED_ROUTING]
    assert all(row.adapter != row.skill for row in own)
    assert {row.skill for row in own if row.success} == {"status"}
    assert {row.adapter for row in own if row.skill == "status"} == {None}, "where none was sent none is"


def test_lots_are_fixed_by_seed_and_fall_on_all_choices() -> None:
    rows = routing_controls(episodes(), 0)
    own = [row for row in rows if row.arm == RANDOM_ROUTING]
    assert len(own) == 60 and {row.adapter for row in own} == {None, *NAMES}
    assert rows == routing_controls(episodes(), 0) != routing_controls(episodes(), 1)
    assert 0.25 < sum(passed(rows, RANDOM_ROUTING)) / 59 < 0.7, (
        "of a quarter all choices pass, of the rest one"
    )


def test_a_fault_stays_a_fault() -> None:
    rows = [row for row in routing_controls(episodes(), 0) if row.task_id == "t7"]
    assert [(row.success, row.fault) for row in rows] == [(None, "infrastructure")] * 2


def test_what_does_not_apply_has_no_rows() -> None:
    assert {row.arm for row in routing_controls(episodes(("cancel",)), 0)} == {RANDOM_ROUTING}
    assert routing_controls([row for row in episodes() if row.arm != "routed"], 0) == []
    assert routing_controls([row for row in episodes() if not row.arm.startswith("adapter:")], 0) == []


def test_the_controls_are_among_a_worlds_results(tmp_path: Path) -> None:
    plan = default_plan(1, 5, {})
    Study(Home.open(world_home(tmp_path, 1) / "home")).store.write(episodes(), Evaluation, "test")
    collect(tmp_path, plan, 1)
    found = read_rows(tmp_path, RESULTS, TaskResult)
    assert {RANDOM_ROUTING, SWAPPED_ROUTING} <= set(found["arm"])
    swapped = found.filter(pl.col("arm") == SWAPPED_ROUTING)
    assert (swapped.height, swapped["judged"].sum(), swapped["passed"].sum()) == (60, 59, 14)


def test_what_validation_chose_is_among_them_as_released(tmp_path: Path) -> None:
    store = Study(Home.open(world_home(tmp_path, 1) / "home")).store
    store.write(episodes(), Evaluation, "test")
    by_hand = [
        CompositionChoice(
            arm=arm,
            chosen=arm == "adapter:cancel",
            runner_up=False,
            refused="",
            n_tasks=9,
            n_trials=9,
            **dict.fromkeys(
                ("pass_rate", "pass_rate_low", "pass_rate_high", "behind", "behind_low", "behind_high")
            ),
        )
        for arm in ("base", "adapter:cancel")
    ]
    store.write(by_hand, CompositionChoice)
    collect(tmp_path, default_plan(1, 5, {}), 1)
    found = read_rows(tmp_path, RESULTS, TaskResult).drop("arm")
    arms = read_rows(tmp_path, RESULTS, TaskResult)["arm"]
    released, chosen = (found.filter(arms == name) for name in (RELEASED, "adapter:cancel"))
    assert released.height == 60 and released.equals(chosen)


def test_what_was_chosen_and_not_played_on_test_tasks_has_no_rate() -> None:
    assert released_rows(episodes(), "joint") == []
