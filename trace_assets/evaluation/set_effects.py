"""Which sets of adapters may act together: each member is judged by what it adds to the sum.

An adapter that is judged alone, on all tasks, can look harmful or useless where tasks lack several skills at
once: what it teaches passes nothing by itself. So two questions are kept apart. May a router choose it alone?
`non_inferiority` answers that. May it act in a sum? That is answered here:

- *Effect*: the pass rate of the sum minus that of the same sum without the member, paired by task, on the
  validation tasks that the router sends to the sum. The router was fitted on discovery labels, so no outcome
  that is counted here has decided which tasks count. The whole sum is compared with the base model likewise.
- *Refused*: a sum of which a member, or which as a whole, is shown to do harm; and one with a member that may
  not act alone and is not shown to help in it. Its tasks then fall to what is left, and that is judged next.
- *Trained together*: a set with an adapter that was trained on top of all others is judged as a whole,
  against the base model: its members were not trained to act without one another.
- *Looks*: every comparison is a look at the same validation tasks. Each interval has a level of 1 - .05 over
  their number (Bonferroni), so that with 95 % none of the verdicts `helps` and `harms` is wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from trace_assets.records import NO_ADAPTER, SetEffect
from trace_assets.routing.router import JOINING, members_of, set_name, within
from trace_assets.stats.paired import Comparison, compare

LEVEL = 0.05
"""Chance that any verdict of a table is wrong, at most."""

Counts = Mapping[str, tuple[int, int]]
"""Task id to trials that passed, and trials that were judged."""
Verdict = Literal["helps", "unclear", "harms"]


class Judged(NamedTuple):
    """Which sums may act, and the figures that decided it.

    Attributes:
        rows: One a set and member, and one for each whole set.
        served: The sums that may act.
    """

    rows: tuple[SetEffect, ...]
    served: frozenset[str]


def marginal_effect(
    together: Counts,
    without: Counts,
    tasks: Iterable[str],
    *,
    looks: int = 1,
    resamples: int = 2000,
    seed: int = 0,
) -> tuple[Comparison, Verdict]:
    """Compare a sum with what is left of it without one member, on the same tasks.

    Args:
        together: Trials of the sum.
        without: Trials of the rest.
        tasks: Those that count; one that was not judged on both sides does not.
        looks: Comparisons that are made on these tasks in all; the interval's level is 1 - .05 / looks.
        resamples: Bootstrap draws over tasks.
        seed: The same seed gives the same interval.

    >>> passes, fails = {f"t{n}": (1, 1) for n in range(30)}, {f"t{n}": (0, 1) for n in range(30)}
    >>> found, verdict = marginal_effect(passes, fails, passes)
    >>> found.delta.value, found.n_tasks, verdict
    (1.0, 30, 'helps')
    >>> marginal_effect(fails, passes, passes)[1], marginal_effect(passes, passes, passes)[1]
    ('harms', 'unclear')

    A fifth of thirty tasks is shown by one look, and not by a hundred:

    >>> some = passes | {f"t{n}": (0, 1) for n in range(6)}
    >>> marginal_effect(passes, some, passes)[1], marginal_effect(passes, some, passes, looks=100)[1]
    ('helps', 'unclear')
    """
    both = sorted(set(tasks) & together.keys() & without.keys())
    counts = np.array([[*together[task], *without[task]] for task in both], dtype=np.int64).reshape(-1, 4)
    confidence = 1 - LEVEL / max(1, looks)
    found = compare(*counts.T, resamples=resamples, seed=seed, confidence=confidence)
    low, high = found.delta.low, found.delta.high
    if low is None or high is None:
        return found, "unclear"
    return found, "helps" if low > 0 else "harms" if high < 0 else "unclear"


def comparisons(sets: Iterable[Sequence[str]]) -> int:
    """Return how many comparisons judging these sets takes: one a member, and one for each whole.

    >>> comparisons([("a", "b"), ("a", "b", "c")])
    7
    >>> comparisons([("a", "b", "joining")])
    1
    """
    return sum(1 if JOINING in members else len(members) + 1 for members in sets)


def judge_sets(
    outcomes: Mapping[str, Counts],
    wanted: Mapping[str, Sequence[str]],
    alone: Collection[str],
    *,
    times: int = 1,
    resamples: int = 2000,
    seed: int = 0,
) -> Judged:
    """Judge every sum that was played, the largest first.

    Args:
        outcomes: Choice, `none` among them, to its trials on validation tasks.
        wanted: Validation task to the adapters that the router calls for, the most probable first.
        alone: Adapters that a router may choose alone.
        times: How often these sets are judged on these tasks, each time counting as further looks.
        resamples: Bootstrap draws over tasks.
        seed: The same seed gives the same intervals.
    """
    sets = {choice: members_of(choice) for choice in sorted(outcomes) if len(members_of(choice)) > 1}
    looks = comparisons(sets.values()) * max(1, times)
    served, rows = set(sets), list[SetEffect]()
    for size in sorted({len(members) for members in sets.values()}, reverse=True):
        sent: dict[str, list[str]] = {}
        for task, members in wanted.items():
            sent.setdefault(within(members, served, alone), []).append(task)
        for choice in [name for name, members in sets.items() if len(members) == size]:
            own = _rows(choice, outcomes, sent.get(choice, []), alone, looks, resamples, seed)
            rows += own
            if not own[0].served:
                served.discard(choice)
    return Judged(tuple(rows), frozenset(served))


def _rows(
    choice: str,
    outcomes: Mapping[str, Counts],
    tasks: Sequence[str],
    alone: Collection[str],
    looks: int,
    resamples: int,
    seed: int,
) -> list[SetEffect]:
    members, found = members_of(choice), list[SetEffect]()
    together = JOINING in members
    for member in ("", *members):
        rest = set_name(set(members) - {member}) if member and not together else NO_ADAPTER
        one, verdict = marginal_effect(
            outcomes[choice], outcomes.get(rest, {}), tasks, looks=looks, resamples=resamples, seed=seed
        )
        by_itself = member in alone if member else any(name in alone for name in members)
        found.append(
            SetEffect(
                choice=choice,
                adapter=member,
                without=rest,
                alone=by_itself,
                n_tasks=one.n_tasks,
                rate=one.arm.value,
                rate_without=one.base.value,
                delta=one.delta.value,
                delta_low=one.delta.low,
                delta_high=one.delta.high,
                confidence=1 - LEVEL / looks,
                verdict=verdict,
                served=verdict == "helps" or (verdict == "unclear" and by_itself),
                reason=_reason(one, verdict, by_itself, whole=not member or together),
            )
        )
    served = all(row.served for row in found)
    return [row.model_copy(update={"served": served}) for row in found]


def _reason(found: Comparison, verdict: Verdict, alone: bool, *, whole: bool) -> str:
    delta = found.delta
    against = "the base model" if whole else "the same sum without it"
    if delta.value is None:
        figures = f"no validation task that the router sends there was judged under it and {against}"
    elif delta.low is None or delta.high is None:
        figures = f"{found.n_tasks} validation task sent there is too few for an interval"
    else:
        figures = (
            f"{100 * delta.value:+.1f} points [{100 * delta.low:+.1f}, {100 * delta.high:+.1f}] against "
            f"{against} on {found.n_tasks} validation tasks that the router sends there"
        )
    if verdict == "unclear":
        words = "shown neither to help nor to harm" + (
            ""
            if alone
            else ": refused, since none of it may act alone"
            if whole
            else ": refused, since it may not act alone"
        )
    else:
        words = "helps in the sum" if verdict == "helps" else "harms the sum: refused"
        if verdict == "helps" and not alone:
            words += ", though it may not act alone"
    return f"{words}: {figures}"


def admitted(rows: Iterable[SetEffect]) -> list[str]:
    """Return the adapters that may not act alone and do act in a sum."""
    found = {row.adapter for row in rows if row.served and row.adapter and not row.alone}
    return sorted(found - {JOINING})


def sentence(rows: Sequence[SetEffect], names: Mapping[str, str]) -> str:
    """Say which adapters act in sums alone, and which sums are refused."""
    if not rows:
        return "no sum of adapters was judged."
    said = [
        f"{names.get(row.adapter, row.adapter)} {row.reason}"
        for row in rows
        if row.served and row.adapter and not row.alone
    ]
    said += [
        f"{' + '.join(names.get(one, one) for one in members_of(row.choice))} is refused: "
        f"{names.get(row.adapter, row.adapter) or 'as a whole it'} {row.reason}"
        for row in rows
        if not row.served and (row.verdict == "harms" or (row.verdict == "unclear" and not row.alone))
    ]
    sums = {row.choice: row.served for row in rows}
    return f"{sum(sums.values())} of {len(sums)} sums may act{''.join(f'; {one}' for one in said)}."
