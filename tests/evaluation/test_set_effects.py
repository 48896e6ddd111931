"""Harm is judged of sets: what harms alone may help in a sum, and a sum that does harm is refused."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from trace_assets.assets.routing import permitted_sets
from trace_assets.evaluation.set_effects import admitted, comparisons, judge_sets, marginal_effect, sentence
from trace_assets.records import SetEffect

TASKS = tuple(f"t{n:02d}" for n in range(60))


def outcomes(**rates: float) -> dict[str, dict[str, tuple[int, int]]]:
    """Four trials of each task under each choice; on a share of the tasks, the first ones, all pass."""
    return {
        choice.replace("_", "+"): {
            task: (4 if n < round(rate * len(TASKS)) else 0, 4) for n, task in enumerate(TASKS)
        }
        for choice, rate in rates.items()
    }


def wanted(*members: str) -> dict[str, list[str]]:
    return {task: list(members) for task in TASKS}


def row(rows: tuple[SetEffect, ...], choice: str, adapter: str) -> SetEffect:
    return next(one for one in rows if (one.choice, one.adapter) == (choice, adapter))


def test_what_harms_alone_and_helps_in_the_sum_acts_in_the_sum_only() -> None:
    # Alone `a` is below the base model; with `b` it passes what neither passes by itself.
    played = outcomes(none=0.4, a=0.2, b=0.5, a_b=0.9)
    judged = judge_sets(played, wanted("a", "b"), alone=["b"])
    assert judged.served == {"a+b"} and admitted(judged.rows) == ["a"]
    one = row(judged.rows, "a+b", "a")
    assert (one.verdict, one.alone, one.without, one.n_tasks) == ("helps", False, "b", 60)
    assert one.delta == pytest.approx(0.4) and one.delta_low is not None and one.delta_low > 0.1
    assert "helps in the sum, though it may not act alone: +40.0 points [" in one.reason
    assert permitted_sets(judged.rows, ["a", "b"], ["b"]) == [("a", "b")]
    said = sentence(judged.rows, {"a": "Look first"})
    assert said.startswith("1 of 1 sums may act; Look first helps in the sum, though it may not act alone")


def test_a_sum_that_does_harm_is_refused_though_each_member_may_act_alone() -> None:
    played = outcomes(none=0.3, a=0.6, b=0.8, a_b=0.3)
    judged = judge_sets(played, wanted("a", "b"), alone=["a", "b"])
    assert judged.served == frozenset() and admitted(judged.rows) == []
    assert row(judged.rows, "a+b", "a").verdict == "harms"
    assert row(judged.rows, "a+b", "").verdict == "unclear"  # no worse than the base model
    assert not any(one.served for one in judged.rows)
    assert permitted_sets(judged.rows, ["a", "b"], ["a", "b"]) == []
    assert "a + b is refused: a harms the sum: refused: -50.0 points [" in sentence(judged.rows, {})


def test_what_harms_alone_and_is_not_shown_to_help_in_the_sum_acts_nowhere() -> None:
    played = outcomes(none=0.4, a=0.2, b=0.8, a_b=0.8)
    judged = judge_sets(played, wanted("a", "b"), alone=["b"])
    assert judged.served == frozenset() and admitted(judged.rows) == []
    assert "refused, since it may not act alone" in row(judged.rows, "a+b", "a").reason
    # The same sum is served where each may act alone: neither help nor harm is shown, as before.
    assert judge_sets(played, wanted("a", "b"), alone=["a", "b"]).served == {"a+b"}


def test_a_sum_that_no_task_is_sent_to_admits_nobody() -> None:
    played = outcomes(none=0.4, a=0.2, b=0.5, a_b=0.9)
    judged = judge_sets(played, wanted("b"), alone=["b"])
    assert judged.served == frozenset() and row(judged.rows, "a+b", "a").n_tasks == 0
    assert "no validation task that the router sends there" in row(judged.rows, "a+b", "a").reason


def test_the_tasks_of_a_refused_sum_fall_to_what_is_left_and_are_judged_there() -> None:
    played = outcomes(none=0.1, a=0.2, b=0.3, c=0.1, a_b=0.8, a_c=0.2, b_c=0.3, a_b_c=0.2)
    judged = judge_sets(played, wanted("a", "b", "c"), alone=["b", "c"])
    assert "a+b" in judged.served and "a+b+c" not in judged.served
    assert row(judged.rows, "a+b+c", "c").verdict == "harms"
    assert row(judged.rows, "a+b", "a").n_tasks == 60 and admitted(judged.rows) == ["a"]
    assert row(judged.rows, "a+c", "").n_tasks == 0  # `a+b` comes first


def test_both_members_may_be_barred_alone_and_the_whole_must_then_help() -> None:
    judged = judge_sets(outcomes(none=0.4, a=0.2, b=0.2, a_b=0.9), wanted("a", "b"), alone=[])
    assert judged.served == {"a+b"} and admitted(judged.rows) == ["a", "b"]
    above_each = judge_sets(outcomes(none=0.5, a=0.0, b=0.0, a_b=0.5), wanted("a", "b"), alone=[])
    assert above_each.served == frozenset()  # as good as the base model is no reason to add up
    assert "none of it may act alone" in row(above_each.rows, "a+b", "").reason


def test_every_further_look_widens_the_interval() -> None:
    played = outcomes(none=0.4, b=0.5, a_b=0.65)
    few, many = (
        marginal_effect(played["a+b"], played["b"], TASKS, looks=looks)[0].delta for looks in (1, 40)
    )
    assert few.low is not None and many.low is not None and many.low < few.low
    judged = judge_sets(played | outcomes(a=0.2), wanted("a", "b"), alone=["b"], times=2)
    assert {one.confidence for one in judged.rows} == {1 - 0.05 / 6} and comparisons([("a", "b")]) == 3


@pytest.mark.ci
def test_sums_without_effect_are_seldom_called_anything() -> None:
    """Of 200 worlds in which adding changes nothing, the sums of at most 5 % get any verdict."""
    rng, wrong = np.random.default_rng(0), 0
    for _ in range(200):
        hard = rng.beta(1, 1, len(TASKS))

        def drawn(trials: int, hard: np.ndarray = hard) -> Mapping[str, tuple[int, int]]:
            passed = rng.binomial(trials, hard)
            return {task: (int(n), trials) for task, n in zip(TASKS, passed, strict=True)}

        played = {"none": drawn(4), "a": drawn(4), "b": drawn(4), "c": drawn(4)}
        played |= {name: drawn(1) for name in ("a+b", "a+c", "b+c", "a+b+c")}
        judged = judge_sets(played, wanted("a", "b", "c"), alone=["b", "c"], resamples=400)
        wrong += any(one.verdict != "unclear" for one in judged.rows)
    assert wrong <= 0.05 * 200


def test_what_was_trained_on_top_of_a_sum_is_judged_with_it_as_a_whole() -> None:
    # Neither may act alone, and no pair of them passes anything: without `joining` nobody would act.
    played = outcomes(none=0.4, a=0.2, b=0.3, a_b=0.1, a_b_joining=0.9)
    judged = judge_sets(played, wanted("a", "b"), alone=[])
    assert judged.served == {"a+b+joining"} and admitted(judged.rows) == ["a", "b"]
    whole = row(judged.rows, "a+b+joining", "a")
    assert (whole.without, whole.verdict, whole.n_tasks) == ("none", "helps", 60)
    assert whole.confidence == pytest.approx(1 - 0.05 / 4), "the pair takes three looks, the whole one"
    assert permitted_sets(judged.rows, ["a", "b"], []) == [("a", "b", "joining")]
    assert permitted_sets(judged.rows, ["a"], []) == [], "what it was trained on top of is not all there"


def test_what_was_trained_on_top_of_a_sum_and_passes_no_more_than_the_base_is_refused() -> None:
    judged = judge_sets(outcomes(none=0.4, a=0.2, b=0.3, a_b_joining=0.4), wanted("a", "b"), alone=[])
    assert judged.served == frozenset() and admitted(judged.rows) == []
