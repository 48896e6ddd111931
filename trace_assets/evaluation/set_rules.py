"""By which rule a router sends tasks to sums: how readily it calls for adapters, at which scale they act.

Two numbers decide what a sum comes to beside its members: the cost of an adapter that was not needed, which
sets the threshold from which on one is called for, and one common scale of the weight changes, since adapters
that each go all the way for themselves overshoot together. Both are chosen among a few on validation tasks;
the test tasks take no part.

- The rule of the settings at full scale stands unless another is ahead of it by more than one standard error
  of the paired difference; so what is chosen out of many by luck alone seldom replaces it.
- The rate by which ways of putting adapters together are compared is cross-fitted: each half of the tasks is
  sent by the rule that the other half chose. So no task's outcome decides how it is sent itself.
- Every rule that is tried counts as further looks where sums are judged (`set_effects`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trace_assets.evaluation.arms import COMPOSED, SUM, compose_rows
from trace_assets.evaluation.set_effects import Judged, judge_sets
from trace_assets.records import NO_ADAPTER, Evaluation, Route, SetRule
from trace_assets.routing.router import candidate_sets, joined, members_of, set_name, sets_of, within
from trace_assets.routing.scores import outcomes_by_choice
from trace_assets.stats.paired import Comparison, compare, pass_rate

ONE_ERROR = 0.6827
"""Level of an interval of one standard error to each side."""
AT = "@"
"""Between a sum and its scale, in arms on validation tasks."""


class Rule(NamedTuple):
    """How tasks are sent to sums.

    Attributes:
        cost: Of an unneeded adapter, relative to one that is lacking: one is called for above cost * (1 - p).
        scale: What the weight changes of a sum are multiplied by.
    """

    cost: float
    scale: float = 1.0


@dataclass(frozen=True)
class Tried:
    """What a rule comes to on validation tasks.

    Attributes:
        rule: The rule.
        judged: Which sums may act under it.
        rows: The tasks as they would be sent, one row a trial.
        several: Tasks that are sent to a sum.
    """

    rule: Rule
    judged: Judged
    rows: tuple[Evaluation, ...]
    several: int


def scaled_name(choice: str, scale: float) -> str:
    """Return what a sum at a scale is called where several scales are played.

    >>> scaled_name("a+b", 1.0), scaled_name("a+b", 0.5)
    ('a+b', 'a+b@0.5')
    """
    return choice if scale == 1.0 else f"{choice}{AT}{scale}"


def at_scale(rows: Iterable[Evaluation], scale: float) -> list[Evaluation]:
    """Return the rows of all single variants, and of the sums at one scale under their plain names."""
    found = []
    for row in rows:
        if not row.arm.startswith(f"{SUM}:"):
            found.append(row)
            continue
        arm, _, other = row.arm.partition(AT)
        if (float(other) if other else 1.0) == scale:
            found.append(row if not other else row.model_copy(update={"arm": arm}))
    return found


def scales_of(rows: Iterable[Evaluation]) -> list[float]:
    """Return the scales at which sums were played: full scale first, then the others, the largest first."""
    arms = {row.arm for row in rows if row.arm.startswith(f"{SUM}:")}
    found = {float(arm.partition(AT)[2] or 1.0) for arm in arms}
    return sorted(found, key=lambda scale: (scale != 1.0, -scale)) or [1.0]


def try_rules(
    validation: Sequence[Evaluation],
    routes: Sequence[Route],
    choices: Sequence[str],
    alone: Collection[str],
    costs: Sequence[float],
    unneeded_cost: float,
    *,
    times: int = 1,
    resamples: int = 2000,
    seed: int = 0,
) -> list[Tried]:
    """Judge the sums, and send the validation tasks, under each rule; that of the settings comes first.

    Args:
        validation: Rows of the base model, each adapter and each sum on validation tasks.
        routes: One router's routes of these tasks.
        choices: Adapters that the router tells apart.
        alone: Those of them that may act alone.
        costs: Tried beside `unneeded_cost`.
        unneeded_cost: What the router was fitted with, and the cost of the settings' own rule.
        times: How often all of this is done on these tasks.
        resamples: Bootstrap draws over tasks.
        seed: The same seed gives the same intervals.
    """
    scales = scales_of(validation)
    rules = [Rule(cost, scale) for scale in scales for cost in dict.fromkeys((unneeded_cost, *costs))]
    names = [NO_ADAPTER, *choices, *map(set_name, [*candidate_sets(choices), joined(choices)])]
    tried = []
    for rule in rules:
        own = at_scale(validation, rule.scale)
        outcomes = {name: rows for name, rows in outcomes_by_choice(own, names).items() if rows}
        wanted = sets_of(routes, unneeded_cost, rule.cost)
        judged = judge_sets(outcomes, wanted, alone, times=times * len(rules), resamples=resamples, seed=seed)
        sent = {task: within(members, judged.served, alone) for task, members in wanted.items()}
        several = sum(len(members_of(choice)) > 1 for choice in sent.values())
        tried.append(Tried(rule, judged, tuple(compose_rows(COMPOSED, sent, own)), several))
    return tried


def choose_rule(tried: Sequence[Tried], tasks: Collection[str] | None = None) -> Tried:
    """Return the best rule, the first unless another is ahead of it by more than one standard error.

    Args:
        tried: The rules, that of the settings first.
        tasks: Validation tasks to choose by; None takes all.
    """
    counts = [_counts(one.rows, tasks) for one in tried]
    first, best, rate = counts[0], tried[0], -1.0
    for one, own in zip(tried[1:], counts[1:], strict=True):
        ahead = _compared(own, first, ONE_ERROR)
        if ahead.delta.low is not None and ahead.delta.low > 0 and (ahead.arm.value or 0.0) > rate:
            best, rate = one, ahead.arm.value or 0.0
    return best


def cross_fitted(tried: Sequence[Tried]) -> list[Evaluation]:
    """Return the validation tasks as the rule sends them that the other half of the tasks chose.

    >>> cross_fitted([])
    []
    """
    if not tried:
        return []
    ids = sorted({row.task_id for one in tried for row in one.rows}, key=_shuffled)
    halves = [frozenset(ids[0::2]), frozenset(ids[1::2])]
    return [
        row
        for own, other in (halves, halves[::-1])
        for row in choose_rule(tried, other).rows
        if row.task_id in own
    ]


def rule_rows(tried: Sequence[Tried], chosen: Tried, resamples: int = 2000, seed: int = 0) -> list[SetRule]:
    """Return the table: one row a rule, with its rate on all validation tasks and its lead over the first."""
    counts = [_counts(one.rows, None) for one in tried]
    rows = []
    for one, own in zip(tried, counts, strict=True):
        tasks = sorted(own)
        figures = np.array([own[task] for task in tasks], dtype=np.int64).reshape(-1, 2)
        rate = pass_rate(figures[:, 0], figures[:, 1], resamples=resamples, seed=seed)
        ahead = (
            _compared(own, counts[0], resamples=resamples, seed=seed).delta if one is not tried[0] else None
        )
        rows.append(
            SetRule(
                cost=one.rule.cost,
                scale=one.rule.scale,
                chosen=one is chosen,
                several=one.several,
                n_tasks=len(tasks),
                n_trials=int(figures[:, 1].sum()),
                pass_rate=rate.value,
                pass_rate_low=rate.low,
                pass_rate_high=rate.high,
                ahead=ahead.value if ahead else None,
                ahead_low=ahead.low if ahead else None,
                ahead_high=ahead.high if ahead else None,
            )
        )
    return rows


def _counts(rows: Iterable[Evaluation], tasks: Collection[str] | None) -> Mapping[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for row in rows:
        if row.success is not None and (tasks is None or row.task_id in tasks):
            passed, judged = found.get(row.task_id, (0, 0))
            found[row.task_id] = passed + row.success, judged + 1
    return found


def _compared(
    own: Mapping[str, tuple[int, int]],
    first: Mapping[str, tuple[int, int]],
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Comparison:
    both = sorted(own.keys() & first.keys())
    counts = np.array([[*own[task], *first[task]] for task in both], dtype=np.int64).reshape(-1, 4)
    return compare(*counts.T, confidence=confidence, resamples=resamples, seed=seed)


def _shuffled(task_id: str) -> str:
    return hashlib.sha256(task_id.encode()).hexdigest()
