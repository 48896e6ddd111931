"""Several policies on the same tasks: the gap within policies, and its test.

A weak policy fails more often and lacks more often; over all its runs and a strong one's together that is a
gap, whatever the lack costs. So each run is compared with runs of the same policy alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trace_assets.stats.intervals import Estimate, distinct_rows, resample

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_DRAWN_ONE_BY_ONE = 10
"""Samples smaller than this numpy draws one by one, and stops where only one kind is left."""


def stratified_p_value(
    lacking: Bools,
    failed: Bools,
    tasks: Ints,
    policy: Ints,
    permutations: int,
    rng: np.random.Generator,
) -> float | None:
    """Return the one-sided p-value of the gap, each policy's outcomes shuffled among its own runs.

    Like `gap_p_value` with one policy: where the runs of one policy at one task ended differently, outcomes
    are exchanged among these; of other tasks the outcomes of whole tasks, all policies together, among tasks
    that the same policies played as often. So each policy keeps its failures, and policies that fail at the
    same tasks do not count as independent. Sampled, p = (1 + as large or larger) / (1 + permutations).

    Args:
        lacking: Whether a run lacks it; relevant runs only, shape `(runs,)`.
        failed: Whether it failed.
        tasks: Its task.
        policy: Who played, counted from 0.
        permutations: How many shuffles.
        rng: Source of randomness.

    Returns:
        The p-value; None when no failure or no success was relevant.

    >>> lacking, failed = np.array([True, False] * 10), np.array([True, False] * 10)
    >>> who = np.array([0, 1] * 10)  # the first policy lacks it and fails always, the second never
    >>> stratified_p_value(lacking, failed, np.repeat(np.arange(10), 2), who, 99, np.random.default_rng(0))
    1.0
    """
    if failed.all() or not failed.any():
        return None
    who = int(policy.max()) + 1
    _, place = np.unique(tasks, return_inverse=True)
    shape = int(place.max()) + 1, who
    cell = place * who + policy
    played, gone, lacks = (
        np.bincount(some, minlength=shape[0] * who).reshape(shape)
        for some in (cell, cell[failed], cell[lacking])
    )
    both = np.count_nonzero(lacking & failed)
    split = (gone > 0) & (gone < played)
    mixed = split.any(axis=1)
    drawn = np.zeros(permutations, dtype=np.int64)
    inside, times = distinct_rows(np.stack([lacks, played - lacks, gone], axis=2)[mixed].reshape(-1, 3))
    for (bad, good, n), often in zip(inside.astype(np.int64), times, strict=True):
        drawn += rng.hypergeometric(bad, good, n, (permutations, int(often))).sum(axis=1)
    for players in distinct_rows(played[~mixed])[0]:
        own = np.flatnonzero(~mixed & (played == players).all(axis=1))
        drawn += _swapped(lacks[own], gone[own] > 0, permutations, rng)
    return (1 + int((drawn >= both).sum())) / (1 + permutations)


def _swapped(lacks: Ints, fails: Bools, permutations: int, rng: np.random.Generator) -> Ints:
    """Return the lacking failures when outcomes of whole tasks are dealt anew, shape `(permutations,)`.

    Only how many tasks of each kind of lacks meet each kind of outcomes matters, and that is drawn.

    Args:
        lacks: Lacking runs, shape `(tasks, policies)`.
        fails: Whether a policy's runs at the task failed, all alike, same shape.
        permutations: How often.
        rng: Source of randomness.
    """
    kinds, needed = distinct_rows(lacks)
    ends, there = distinct_rows(fails.astype(np.int64))
    together = np.rint(kinds @ ends.T).astype(np.int64)
    left = [np.full(permutations, n) for n in there]
    of_all, drawn = int(there.sum()), np.zeros(permutations, dtype=np.int64)
    for kind, n, lacking in zip(kinds, needed, together, strict=True):
        if not kind.any():
            continue  # whatever it meets, nothing is lacking
        still, others = np.full(permutations, n), np.full(permutations, of_all)
        for place, own in enumerate(left):
            others = others - own  # what is left of the kinds of outcomes that come after this one
            if place == len(left) - 1 and n < _DRAWN_ONE_BY_ONE:
                taken = still  # nothing else is left to take, and the draw would use up no random number
            else:
                taken = rng.hypergeometric(own, others, still)
            if lacking[place]:
                drawn += taken * lacking[place]
            left[place] = own - taken
            still = still - taken
        of_all -= int(n)
    return drawn


def stratified_gap(
    counts: Ints, *, resamples: int = 1000, seed: int = 0, confidence: float = 0.95
) -> Estimate:
    """Return the gap within policies, with the percentile interval of a bootstrap over tasks.

    Mantel and Haenszel's common risk difference (Greenland and Robins 1985, Biometrics 41:55): each policy's
    gap is weighted by f p / (f + p) for f failed and p passed relevant runs.

    Args:
        counts: Lacking and relevant among failed, lacking and relevant among passed, by task and policy,
            shape `(tasks, policies, 4)`.
        resamples: Bootstrap draws.
        seed: The same seed gives the same interval.
        confidence: Nominal coverage.

    Returns:
        None without a policy that has relevant runs on both sides; no bounds where one task gives all.

    >>> one = np.array([[9, 10, 1, 10], [10, 10, 2, 10]])  # gaps of 0.8 in both policies
    >>> round(stratified_gap(np.stack([one, one])).value, 9)
    0.8
    """
    value = _common(counts.sum(axis=0)[None])[0]
    if np.isnan(value):
        return Estimate(None, None, None)
    used = counts[(counts[:, :, 1] + counts[:, :, 3]).any(axis=1)]
    if len(used) < 2:
        return Estimate(float(value), None, None)
    flat = used.reshape(len(used), -1).astype(np.float64)
    spread = _common(resample(flat, resamples, seed).reshape(resamples, *counts.shape[1:]))
    tail = (1 - confidence) / 2
    low, high = np.nanquantile(spread, [tail, 1 - tail])
    return Estimate(float(value), min(float(low), float(value)), max(float(high), float(value)))


def common_gap(lacking: Bools, failed: Bools, policy: Ints) -> float | None:
    """Return the gap within policies as `stratified_gap` has it, without an interval.

    Args:
        lacking: Whether a run lacks it; relevant runs only, shape `(runs,)`.
        failed: Whether it failed.
        policy: Who played, counted from 0.

    >>> common_gap(np.array([True, False] * 2), np.array([True, False] * 2), np.array([0, 0, 1, 1]))
    1.0
    >>> common_gap(np.array([True, False]), np.array([True, False]), np.array([0, 1])) is None
    True
    """
    who = int(policy.max(initial=-1)) + 1
    sums = np.stack(
        [
            np.bincount(policy[mask], minlength=who)
            for mask in (lacking & failed, failed, lacking & ~failed, ~failed)
        ],
        axis=1,
    )
    value = float(_common(sums[None])[0])
    return None if np.isnan(value) else value


def _common(sums: NDArray[np.float64] | Ints) -> NDArray[np.float64]:
    """Return the common risk difference of each line of `(lines, policies, 4)`, NaN where there is none."""
    lf, rf, lp, rp = (sums[:, :, place].astype(np.float64) for place in range(4))
    weight = np.where((rf > 0) & (rp > 0), rf * rp / np.maximum(rf + rp, 1e-12), 0.0)
    gap = lf / np.maximum(rf, 1e-12) - lp / np.maximum(rp, 1e-12)
    total = weight.sum(axis=1)
    result = np.full(len(sums), np.nan)
    known = total > 0
    result[known] = (weight * gap).sum(axis=1)[known] / total[known]
    return result
