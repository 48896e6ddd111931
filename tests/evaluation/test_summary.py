from __future__ import annotations

import random

import pytest

from trace_assets.evaluation.non_inferiority import summarise
from trace_assets.records import ArmSummary, Evaluation
from trace_assets.settings import EvaluationSection

SECTION = EvaluationSection(trials=4, resamples=500)


def trials(arm: str, task: int, outcomes: str, skill: str = "") -> list[Evaluation]:
    """`1` passed, `0` failed, `x` broke."""
    return [
        Evaluation(
            task_id=f"t/{task:03}",
            trial=number,
            arm=arm,
            adapter=None,
            success=None if one == "x" else one == "1",
            reward=None if one == "x" else float(one),
            fault="infrastructure" if one == "x" else None,
            skill=skill,
        )
        for number, one in enumerate(outcomes)
    ]


def table(rows: list[Evaluation]) -> dict[tuple[str, str], ArmSummary]:
    return {(row.skill, row.arm): row for row in summarise(rows, SECTION)}


def test_a_better_arm() -> None:
    rows = []
    for task in range(40):
        rows += trials("base", task, "1000" if task % 2 else "1111", "even" if task % 2 == 0 else "odd")
        rows += trials("routed", task, "1111" if task != 1 else "0001", "even" if task % 2 == 0 else "odd")
    result = table(rows)
    assert list(result) == [(s, a) for s in ("all", "even", "odd") for a in ("base", "routed")]
    base, routed = result["all", "base"], result["all", "routed"]
    assert (base.n_tasks, base.n_trials, base.n_faults, base.pass_rate) == (40, 160, 0, 0.625)
    assert (base.delta, base.delta_low, base.mcnemar_p) == (None, None, None)
    assert routed.delta == pytest.approx(19 * 0.75 / 40)
    assert routed.delta_low is not None and routed.delta_high is not None
    assert 0.2 < routed.delta_low < routed.delta < routed.delta_high < 0.5
    assert routed.mcnemar_p == pytest.approx(2 / 2**19)
    assert (base.pass_hat_k, routed.pass_hat_k) == (0.5, 39 / 40)
    even = result["even", "routed"]
    assert (even.delta, even.mcnemar_p, even.pass_rate) == (0.0, 1.0, 1.0)
    assert even.pass_rate_low is not None and even.pass_rate_low < 0.9  # 20 tasks do not prove 100 %


def test_pairing_takes_out_what_is_hard_for_both() -> None:
    rows = []
    for task in range(60):
        rows += trials("base", task, "1111" if task < 30 else "0000")
        rows += trials("routed", task, "1111" if task < 36 else "0000")
    routed = table(rows)["all", "routed"]
    assert (
        routed.delta_low is not None and routed.delta_high is not None and routed.pass_rate_high is not None
    )
    assert routed.delta_low > 0
    assert routed.delta_high - routed.delta_low < routed.pass_rate_high - (routed.pass_rate_low or 0)


def test_faults_are_counted_and_never_a_failure() -> None:
    rows = trials("base", 0, "11xx") + trials("base", 1, "0000") + trials("base", 2, "xxxx")
    rows += trials("routed", 0, "1111") + trials("routed", 1, "11xx") + trials("routed", 2, "1111")
    result = table(rows)
    base, routed = result["all", "base"], result["all", "routed"]
    assert (base.n_faults, base.n_trials, base.n_tasks, base.pass_rate) == (6, 6, 2, 0.5)
    assert (routed.n_tasks, routed.pass_rate) == (3, 1.0)
    assert routed.delta == 0.5  # on the two tasks judged in both
    assert base.pass_hat_k == 0.0  # only the second task has four trials


def test_a_tie_is_no_majority() -> None:
    rows = trials("base", 0, "0000") + trials("routed", 0, "1100") + trials("base", 1, "0000")
    rows += trials("routed", 1, "1110")
    assert table(rows)["all", "routed"].mcnemar_p == 1.0  # one discordant pair: 2 / 2 ** 1


def test_nothing_judged_is_no_figure() -> None:
    rows = trials("base", 0, "xx") + trials("routed", 0, "11")
    result = table(rows)
    base, routed = result["all", "base"], result["all", "routed"]
    assert (base.pass_rate, base.pass_rate_low, base.pass_hat_k, base.n_faults) == (None, None, None, 2)
    assert (routed.delta, routed.mcnemar_p, routed.pass_rate) == (None, None, 1.0)
    assert summarise([], SECTION) == []


def test_order_does_not_matter_and_base_may_be_absent() -> None:
    rows = [
        row for task in range(9) for row in trials("routed", task, "1010", "s") + trials("base", task, "1x00")
    ]
    expected = summarise(rows, SECTION)
    random.Random(0).shuffle(rows)
    assert summarise(rows, SECTION) == expected
    alone = summarise([row for row in rows if row.arm == "routed"], SECTION)
    assert all(row.delta is None and row.pass_rate == 0.5 for row in alone)
