"""The rule by which tasks are sent to sums is chosen on validation tasks, and never flatters itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from trace_assets.evaluation.set_rules import (
    Rule,
    at_scale,
    choose_rule,
    cross_fitted,
    rule_rows,
    scaled_name,
    scales_of,
    try_rules,
)
from trace_assets.records import Evaluation, Route

TASKS = tuple(f"t{n:02d}" for n in range(60))


def rows(arm: str, rate: float) -> list[Evaluation]:
    """One trial of each task, of which a share passes, spread evenly."""
    return [
        Evaluation(
            task_id=task,
            trial=0,
            arm=arm,
            adapter=None,
            success=int((n + 1) * rate) > int(n * rate),
            reward=None,
            split="validation",
        )
        for n, task in enumerate(TASKS)
    ]


def routes(a: float, b: float, none: float) -> list[Route]:
    row = {"a": a, "b": b, "none": none}
    return [
        Route(router="label_logits", task_id=task, choice=max(row, key=lambda n: row[n]), probabilities=row)
        for task in TASKS
    ]


def played(**sums: float) -> list[Evaluation]:
    found = [*rows("base", 0.2), *rows("adapter:a", 0.3), *rows("adapter:b", 0.3)]
    for name, rate in sums.items():
        found += rows("sum:" + name.replace("_at_", "@0.").replace("_", "+"), rate)
    return found


def tried(validation: Sequence[Evaluation], costs: Sequence[float] = (0.02,), **need: float):  # type: ignore[no-untyped-def]
    need = need or {"a": 0.7, "b": 0.05, "none": 0.25}
    return try_rules(validation, routes(**need), ["a", "b"], ["a", "b"], costs, 0.1, resamples=400)


def test_a_lower_threshold_is_taken_where_the_sums_that_it_calls_for_pass_more() -> None:
    # At a cost of .1 the second adapter is not called for (.05 < .1 * .95), at .02 it is.
    found = tried(played(a_b=0.8))
    assert [one.rule for one in found] == [Rule(0.1), Rule(0.02)]
    assert [one.several for one in found] == [0, 60]
    assert choose_rule(found).rule == Rule(0.02)
    first, second = rule_rows(found, choose_rule(found), resamples=400)
    assert (first.chosen, second.chosen, first.ahead) == (False, True, None)
    assert second.ahead == pytest.approx(0.5, abs=0.02) and second.ahead_low is not None
    assert second.n_tasks == 60 and second.pass_rate_low is not None and second.pass_rate_low > 0.6


def test_the_settings_rule_stands_where_another_is_ahead_by_less_than_an_error() -> None:
    assert choose_rule(tried(played(a_b=0.32))).rule == Rule(0.1)
    assert choose_rule(tried(played(a_b=0.1))).rule == Rule(0.1)


def test_a_scale_is_chosen_by_the_sums_that_were_played_at_it() -> None:
    validation = played(a_b=0.3, a_b_at_5=0.9)
    assert scales_of(validation) == [1.0, 0.5] and scaled_name("a+b", 0.5) == "a+b@0.5"
    half = [row for row in at_scale(validation, 0.5) if row.arm.startswith("sum:")]
    assert {row.arm for row in half} == {"sum:a+b"} and sum(bool(row.success) for row in half) == 54
    found = tried(validation, (), a=0.5, b=0.5, none=0.0)
    assert [one.rule for one in found] == [Rule(0.1, 1.0), Rule(0.1, 0.5)]
    assert choose_rule(found).rule == Rule(0.1, 0.5)
    # Both rules are looks at the same tasks.
    assert {row.confidence for one in found for row in one.judged.rows} == {1 - 0.05 / 6}


@pytest.mark.ci
def test_no_tasks_outcome_decides_how_it_is_sent_itself() -> None:
    """Of many rules without any difference the best looks better than it is; cross-fitted it does not."""
    rng, flattered, honest = np.random.default_rng(0), [], []
    need = {"a": 0.5, "b": 0.5, "none": 0.0}
    for _ in range(60):
        validation = [*rows("base", 0.2), *rows("adapter:a", 0.3), *rows("adapter:b", 0.3)]
        for scale in (1.0, 0.9, 0.8, 0.7, 0.6, 0.5):
            name = scaled_name("a+b", scale)
            validation += [
                row.model_copy(update={"success": bool(rng.random() < 0.5)}) for row in rows(f"sum:{name}", 0)
            ]
        found = tried(validation, (), **need)
        flattered.append(np.mean([bool(row.success) for row in choose_rule(found).rows]))
        fitted = cross_fitted(found)
        assert sorted(row.task_id for row in fitted) == list(TASKS)
        honest.append(np.mean([bool(row.success) for row in fitted]))
    error = np.std(honest) / np.sqrt(len(honest))
    assert np.mean(flattered) > 0.53
    assert abs(np.mean(honest) - 0.5) < 3 * error


def test_with_nothing_played_the_settings_rule_stands() -> None:
    found = tried([*rows("base", 0.2), *rows("adapter:a", 0.3), *rows("adapter:b", 0.3)])
    assert choose_rule(found).rule == Rule(0.1) and not found[0].judged.rows
