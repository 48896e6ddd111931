"""Permutation test: do failures lack a capability more often than successes that needed it too?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import comb

import numpy as np
from numpy.typing import NDArray

from trace_assets.stats.intervals import distinct_rows

# The hypergeometric distribution. SciPy is imported where it is used: most commands start without it.


def log_choose(n: Floats | Ints | int, k: Floats | Ints | int) -> Floats:
    """Return the logarithm of how many ways there are to choose k of n.

    >>> round(float(np.exp(log_choose(5, 2))), 9)
    10.0
    """
    from scipy.special import gammaln

    top, chosen = np.asarray(n, dtype=np.float64), np.asarray(k, dtype=np.float64)
    return np.asarray(gammaln(top + 1) - gammaln(chosen + 1) - gammaln(top - chosen + 1))


@lru_cache(maxsize=8192)
def hypergeometric_pmf(good: int, bad: int, draws: int) -> Floats:
    """Return the probability of each number of good ones among some drawn without replacement.

    Args:
        good: Good ones in the urn.
        bad: Others in the urn.
        draws: How many are drawn, at most `good + bad`.

    Returns:
        Probabilities of 0, 1, ..., min(good, draws); kept for the next call, so not to be written to.

    Raises:
        ValueError: More are drawn than there are, or a number is negative.

    >>> [round(float(p) * 10, 9) for p in hypergeometric_pmf(2, 3, 2)]
    [3.0, 6.0, 1.0]
    """
    if min(good, bad, draws) < 0 or draws > good + bad:
        raise ValueError(f"cannot draw {draws} of {good} good and {bad} other ones")
    k = np.arange(min(good, draws) + 1)
    possible = draws - k <= bad
    others = np.where(possible, draws - k, 0)
    log_p = log_choose(good, k) + log_choose(bad, others) - log_choose(good + bad, draws)
    pmf = np.where(possible, np.exp(log_p), 0.0)
    pmf.flags.writeable = False
    return pmf


def tail(pmf: Floats, at_least: int) -> float:
    """Return the probability of a count or more, kept in (0, 1] against rounding.

    >>> tail(np.array([0.25, 0.5, 0.25]), 1), tail(np.array([1.0]), 0)
    (0.75, 1.0)
    """
    total = float(pmf.sum())
    above = float(pmf[max(0, at_least) :].sum())
    return float(min(1.0, max(above / total, np.finfo(np.float64).tiny)))


Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_EXACT = 4_000_000
"""Additions up to which the distribution over all permutations is computed (some 10 ms), not sampled."""


def gap_p_value(
    failed_lacking: Ints,
    failed_relevant: Ints,
    passed_lacking: Ints,
    passed_relevant: Ints,
    permutations: int,
    rng: np.random.Generator,
) -> float | None:
    """Return the one-sided p-value of the contrastive gap, outcomes shuffled among relevant trajectories.

    The null hypothesis: among trajectories whose task needs the capability, outcome and label are unrelated.
    What may be exchanged under it:

    - within a task that has both outcomes among its relevant trials, the outcomes of these trials, so a
      hard task cannot pass for a lacking capability: trials of one task share its difficulty, and differ in
      nothing else that the label could have followed;
    - among tasks whose relevant trials all ended alike, the outcomes of whole tasks with equally many
      relevant trials, so trials of one task are never counted as independent. That needs more: that such
      tasks are exchangeable, which tasks of unequal difficulty are not when the capability is lacking more
      often in hard ones. Only trials of the same task tell the two apart, see `matched_gap`.

    Both keep the number of relevant failures and successes, so the gap rises exactly with the number of
    lacking failures, which is a sum of (multivariate) hypergeometric counts. Its distribution over all
    permutations is computed where that is cheap, so p is exact and has no smallest value. Elsewhere it is
    sampled, with p = (1 + as large or larger) / (1 + permutations), never 0 (Phipson and Smyth 2010,
    "Permutation p-values should never be zero", SAGMB 9:39).

    Args:
        failed_lacking: LACKING among failed trials, shape `(tasks,)`.
        failed_relevant: LACKING or PRESENT among failed trials, shape `(tasks,)`.
        passed_lacking: The same among passed trials.
        passed_relevant: The same among passed trials.
        permutations: How many shuffles to draw where the distribution is sampled.
        rng: Source of randomness there.

    Returns:
        The p-value; None when no failure or no success was relevant, so that there is no gap.

    >>> rng = np.random.default_rng(0)
    >>> one, none = np.ones(4, dtype=np.int64), np.zeros(4, dtype=np.int64)
    >>> both = np.concatenate  # four failures, three of them lacking, and four successes, none of them
    >>> p = gap_p_value(both([np.array([1, 1, 1, 0]), none]), both([one, none]),
    ...                 both([none, none]), both([none, one]), 999, rng)
    >>> round(p * 14, 9)  # 4 ways to choose them among failures, out of 56
    1.0
    """
    if failed_relevant.sum() == 0 or passed_relevant.sum() == 0:
        return None
    lacking = failed_lacking + passed_lacking
    relevant = failed_relevant + passed_relevant
    mixed = (failed_relevant > 0) & (passed_relevant > 0)
    informative = mixed & (lacking > 0) & (lacking < relevant)
    moving = int(failed_lacking[informative].sum() + failed_lacking[~mixed].sum())

    within, tasks = distinct_rows(
        np.stack([lacking, relevant - lacking, failed_relevant], axis=1)[informative]
    )
    between = []
    uniform = ~mixed & (relevant > 0)
    for size in np.unique(relevant[uniform]):
        stratum = uniform & (relevant == size)
        values, times = np.unique(lacking[stratum], return_counts=True)
        between.append((values, times, int((failed_relevant[stratum] > 0).sum())))

    if _effort(within, tasks, between) <= _EXACT:
        pmf = np.ones(1)
        for (good, bad, sample), times in zip(within.astype(np.int64), tasks, strict=True):
            pmf = np.convolve(pmf, _power(hypergeometric_pmf(int(good), int(bad), int(sample)), int(times)))
        for values, times, failed in between:
            pmf = np.convolve(pmf, _drawn_sum(values, times, failed))
        return tail(pmf, moving)

    drawn = np.zeros(permutations, dtype=np.int64)
    for (good, bad, sample), times in zip(within.astype(np.int64), tasks, strict=True):
        pmf = hypergeometric_pmf(int(good), int(bad), int(sample))
        drawn += rng.multinomial(int(times), pmf / pmf.sum(), size=permutations) @ np.arange(len(pmf))
    for values, times, failed in between:
        chosen = rng.multivariate_hypergeometric(times, failed, size=permutations, method="marginals")
        drawn += np.asarray(chosen @ values, dtype=np.int64)
    return (1 + int((drawn >= moving).sum())) / (1 + permutations)


def _effort(within: Floats, tasks: Ints, between: list[tuple[Ints, Ints, int]]) -> float:
    """Return about how many additions the exact distribution takes."""
    spans = [float((np.minimum(within[:, 0], within[:, 2]) * tasks).sum())]
    effort = spans[0] ** 2
    for values, times, failed in between:
        top = float(values.max()) * min(failed, int(times[values > 0].sum()))
        several = (values > 0).sum() > 1
        effort += float(times[values > 0].sum()) * (failed + 1) * (top + 1) if several else top
        effort += top * sum(spans)
        spans.append(top)
    return effort


def _power(pmf: Floats, times: int) -> Floats:
    """Return the distribution of a sum of independent counts with the same distribution."""
    result = np.ones(1)
    while times:
        if times & 1:
            result = np.convolve(result, pmf)
        times >>= 1
        if times:
            pmf = np.convolve(pmf, pmf)
    return result


def _drawn_sum(values: Ints, times: Ints, draws: int) -> Floats:
    """Return the distribution of the sum of values when some tasks are drawn without replacement.

    Args:
        values: Distinct values, shape `(kinds,)`.
        times: Tasks with each value.
        draws: Tasks drawn.
    """
    left = int(times.sum())
    positive = [(int(v), int(n)) for v, n in zip(values, times, strict=True) if v > 0]
    if len(positive) == 1:
        value, n = positive[0]
        counts = hypergeometric_pmf(n, left - n, draws)
        pmf = np.zeros(value * (len(counts) - 1) + 1)
        pmf[::value] = counts
        return pmf
    top = sum(v * min(n, draws) for v, n in positive)
    state = np.zeros((draws + 1, top + 1))  # by draws still to make and sum so far
    state[draws, 0] = 1.0
    for value, n in positive:
        after = np.zeros_like(state)
        ways = np.zeros((draws + 1, n + 1))
        for still in range(draws + 1):
            pmf = hypergeometric_pmf(n, left - n, still) if still <= left else np.zeros(1)
            ways[still, : len(pmf)] = pmf
        for k in range(min(n, draws) + 1):
            shift = value * k
            after[: draws + 1 - k, shift:] += ways[k:, k, None] * state[k:, : top + 1 - shift]
        state, left = after, left - n
    return np.asarray(state.sum(axis=0))


# Many candidates are tested at once: the false discovery rate.


def benjamini_hochberg(p_values: Sequence[float | None], considered: int = 0) -> list[float | None]:
    """Return q-values: the smallest false discovery rate at which each hypothesis is rejected.

    Benjamini and Hochberg (1995), "Controlling the false discovery rate", JRSS B 57:289.

    Args:
        p_values: In any order; None where no test could be made, which counts for nothing.
        considered: Hypotheses that these were picked among, where those left out count as p = 1: picking by
            any rule then costs nothing in validity.

    Returns:
        q-values in the same order, None where p is None.

    >>> benjamini_hochberg([0.01, None, 0.04, 0.03])
    [0.03, None, 0.04, 0.04]
    >>> benjamini_hochberg([0.01, 0.03], considered=10)
    [0.1, 0.15]
    """
    tested = [(p, place) for place, p in enumerate(p_values) if p is not None]
    result: list[float | None] = [None] * len(p_values)
    if not tested:
        return result
    tested.sort()
    p = np.array([value for value, _ in tested])
    scaled = p * max(len(p), considered) / np.arange(1, len(p) + 1)
    q = np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1])
    for (_, place), value in zip(tested, q, strict=True):
        result[place] = float(value)
    return result


def at_least(bad: int, n_bad: int, good: int, n_good: int) -> float:
    """Return the chance that so many or more fall on the first side: Fisher's exact test (Fisher 1935).

    Args:
        bad: How many do on the first side.
        n_bad: Of how many.
        good: The same of the second side.
        n_good: Of how many.

    >>> round(at_least(3, 4, 1, 4), 4), at_least(0, 4, 0, 4)
    (0.2429, 1.0)
    """
    lacks, every = bad + good, n_bad + n_good
    ways = sum(comb(n_bad, k) * comb(n_good, lacks - k) for k in range(bad, min(lacks, n_bad) + 1))
    return ways / comb(every, lacks)
