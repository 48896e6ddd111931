from __future__ import annotations

import pytest

from trace_assets.errors import InputError
from trace_assets.records import Evaluation, Route, RouterRegret
from trace_assets.routing.scores import outcomes_by_choice, regret


def evaluations(passes: dict[str, list[list[bool | None]]]) -> list[Evaluation]:
    return [
        Evaluation(task_id=f"t{n}", trial=trial, arm=arm, adapter=None, success=success, reward=None)
        for arm, tasks in passes.items()
        for n, trials in enumerate(tasks)
        for trial, success in enumerate(trials)
    ]


def routes(choices: list[str]) -> list[Route]:
    return [
        Route(router="classifier", task_id=f"t{n}", choice=choice, probabilities={"x": 0.5, "none": 0.5})
        for n, choice in enumerate(choices)
    ]


def by_reference(rows: list[RouterRegret]) -> dict[str, RouterRegret]:
    return {row.reference: row for row in rows}


# Task 0 needs the adapter, task 1 is broken by it.
PASSES: dict[str, list[list[bool | None]]] = {
    "base": [[False, False], [True, True]] * 10,
    "adapter:x": [[True, True], [False, False]] * 10,
    "adapter:unused": [[True, True]] * 20,
}
ORACLE = {f"t{n}": "none" if n % 2 else "x" for n in range(20)}


def test_a_perfect_router_loses_nothing_and_beats_every_constant() -> None:
    rows = by_reference(regret(evaluations(PASSES), routes(["x", "none"] * 10), ORACLE, "x"))
    assert rows["oracle"].regret == 0 and rows["oracle"].router_rate == 1
    for name in ("best_single", "base", "random"):
        assert rows[name].regret == pytest.approx(-0.5)
        assert rows[name].regret_high is not None and rows[name].regret_high < 0
    assert (rows["best_single"].choice, rows["base"].choice, rows["oracle"].choice) == ("x", "none", "")


def test_a_router_that_is_always_wrong_loses_everything() -> None:
    rows = by_reference(regret(evaluations(PASSES), routes(["none", "x"] * 10), ORACLE, "none"))
    assert rows["oracle"].regret == 1 and rows["random"].regret == pytest.approx(0.5)


def test_unjudged_trials_do_not_count_as_failures() -> None:
    passes = {**PASSES, "base": [[False, None], [True, None]] * 10}
    assert outcomes_by_choice(evaluations(passes), ["none"])["none"]["t1"] == (1, 1)
    rows = by_reference(regret(evaluations(passes), routes(["none"] * 20), ORACLE, "x"))
    assert rows["base"].router_rate == 0.5 and rows["base"].regret == 0


def test_an_arm_that_was_never_played_is_named() -> None:
    with pytest.raises(InputError, match="'missing'"):
        regret(evaluations(PASSES), routes(["x"]), ORACLE, "missing")
    with pytest.raises(InputError, match="'t0' has no oracle choice"):
        regret(evaluations(PASSES), routes(["x"]), {}, "x")
