"""Wilson's score interval: the interval of a proportion whose trials are independent."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray


def wilson(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the score interval of a binomial proportion.

    Wilson (1927), "Probable inference, the law of succession, and statistical inference", JASA 22:209.
    It stays inside [0, 1], is not empty at 0 or n successes, and needs independent trials: for several trials
    a task use `trace_assets.stats.intervals`.

    Args:
        successes: How many trials succeeded.
        n: How many trials there were. With none, nothing is known and the interval is (0, 1).
        confidence: Nominal coverage, such as 0.95.

    Returns:
        Lower and upper bound.

    Raises:
        ValueError: `successes` is not in 0..n, or `confidence` is not in (0, 1).

    >>> low, high = wilson(8, 50)
    >>> round(low, 3), round(high, 3)
    (0.083, 0.285)
    >>> wilson(0, 0)
    (0.0, 1.0)
    """
    if not 0 <= successes <= n:
        raise ValueError(f"successes must be in 0..n, got {successes} of {n}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be in (0, 1), got {confidence}")
    if n == 0:
        return 0.0, 1.0
    low, high = score_interval(successes / n, n, confidence)
    return (0.0 if successes == 0 else low), (1.0 if successes == n else high)


def score_interval(rate: float, n: float, confidence: float = 0.95) -> tuple[float, float]:
    """Return Wilson's interval for a rate seen on `n` effective trials.

    Args:
        rate: The estimate, in [0, 1].
        n: Effective number of independent trials, above 0; need not be whole.
        confidence: Nominal coverage.

    >>> low, high = score_interval(0.16, 50)
    >>> round(low, 3), round(high, 3)
    (0.083, 0.285)
    """
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    scale = 1 + z * z / n
    centre = (rate + z * z / (2 * n)) / scale
    half = z / scale * sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    return min(rate, max(0.0, centre - half)), max(rate, min(1.0, centre + half))


# Intervals of rates and of their differences when several trials share a task.


Floats = NDArray[np.float64]

_BLOCK = 4_000_000
"""Weights held at a time (32 MB)."""
_FEW = 16
"""Rows that repeat this often are drawn faster by multinomial counts than task by task."""
_DENSE = 1 << 22
"""Largest number of possible rows that is counted in an array of that size."""


@dataclass(frozen=True)
class Estimate:
    """A figure with its interval: all None where it is undefined, bounds None where it rests on one task."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Ratio:
    """A rate `sum(numerators) / sum(denominators)` over tasks, with its bootstrap replicates.

    Attributes:
        value: The rate, NaN where the denominator is empty.
        effective: Effective number of independent trials behind it; 0 where no interval can be given.
        replicates: Shape `(resamples,)`, NaN where a resample has an empty denominator.
    """

    value: float
    effective: float
    replicates: Floats

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return the rate with its interval."""
        if np.isnan(self.value):
            return Estimate(None, None, None)
        if self.effective <= 0:
            return Estimate(self.value, None, None)
        return Estimate(self.value, *score_interval(self.value, self.effective, confidence))


def resample(counts: NDArray[np.float64] | NDArray[np.int64], resamples: int, seed: int) -> Floats:
    """Draw tasks with replacement and sum their counts.

    Efron (1979), "Bootstrap methods: another look at the jackknife", Annals of Statistics 7:1, over clusters.
    How often each distinct row of counts is drawn is multinomial, whichever tasks have it: where rows repeat
    much, that is what is drawn, and otherwise tasks one by one.

    Args:
        counts: Shape `(tasks, columns)`, finite; the order of tasks matters to the draw, so sort them.
        resamples: How many times to draw as many tasks as there are.
        seed: The same seed and counts give the same sums.

    Returns:
        Shape `(resamples, columns)`.

    >>> sums = resample(np.array([[1.0, 2.0], [0.0, 2.0]]), resamples=1000, seed=0)
    >>> sums.shape, set(sums[:, 1].tolist())
    ((1000, 2), {4.0})
    """
    return resample_each(counts[:, None, :], resamples, seed)[:, 0]


def resample_each(
    counts: NDArray[np.float64] | NDArray[np.int64], resamples: int, seed: int
) -> NDArray[np.float64]:
    """Draw tasks with replacement for several tables of counts; see `resample`.

    Args:
        counts: Shape `(tasks, tables, columns)`.
        resamples: How many times to draw.
        seed: The sums of one table do not depend on the others.

    Returns:
        Shape `(resamples, tables, columns)`.
    """
    tasks, tables, columns = counts.shape
    sums = np.zeros((resamples, tables, columns))
    if tasks == 0:
        return sums
    singly = []
    for table in range(tables):
        rows, times = distinct_rows(counts[:, table])
        if _FEW * len(times) > tasks:
            singly.append(table)
            continue
        rng = np.random.default_rng(seed)
        block = max(1, _BLOCK // len(times))
        for start in range(0, resamples, block):
            part = slice(start, min(start + block, resamples))
            weights = rng.multinomial(tasks, times / tasks, size=part.stop - start)
            sums[part, table] = weights.astype(np.float64) @ rows
    if not singly:
        return sums
    matrix = np.asarray(counts[:, singly], dtype=np.float64).reshape(tasks, -1)
    rng = np.random.default_rng(seed)
    block = max(1, _BLOCK // tasks)
    for start in range(0, resamples, block):
        part = slice(start, min(start + block, resamples))
        n = part.stop - start
        drawn = rng.integers(0, tasks, size=(n, tasks)) + np.arange(n)[:, None] * tasks
        weights = np.bincount(drawn.ravel(), minlength=n * tasks).reshape(n, tasks)
        sums[part, singly] = (weights.astype(np.float64) @ matrix).reshape(n, len(singly), columns)
    return sums


def distinct_rows(counts: NDArray[np.float64] | NDArray[np.int64]) -> tuple[Floats, NDArray[np.int64]]:
    """Return the distinct rows of a matrix in a fixed order, and how often each occurs.

    Args:
        counts: Shape `(rows, columns)`, finite.

    Returns:
        Shapes `(distinct, columns)` and `(distinct,)`.

    >>> rows, times = distinct_rows(np.array([[2, 1], [0, 3], [2, 1]]))
    >>> rows.tolist(), times.tolist()
    ([[0.0, 3.0], [2.0, 1.0]], [1, 2])
    """
    if len(counts) == 0:
        return np.asarray(counts, dtype=np.float64), np.zeros(0, dtype=np.int64)
    key = np.zeros(len(counts), dtype=np.int64)
    size = 1
    whole = np.issubdtype(counts.dtype, np.integer)
    least, most = counts.min(axis=0).tolist(), counts.max(axis=0).tolist()
    for number, column in enumerate(counts.T):
        if whole and least[number] >= 0 and most[number] < _DENSE:
            code, values = column.astype(np.int64), int(most[number]) + 1
        else:
            distinct, place = np.unique(column, return_inverse=True)
            code, values = place.astype(np.int64), len(distinct)
        if size * values > 2**62:  # number the keys anew before they outgrow 64 bits
            distinct_keys, key = np.unique(key, return_inverse=True)
            size = len(distinct_keys)
        key, size = key * values + code, size * values
    if size <= _DENSE:
        times = np.bincount(key, minlength=size)
        first = np.zeros(size, dtype=np.int64)
        first[key] = np.arange(len(key))  # any row of the pattern will do: they are equal
        there = times > 0
        return np.asarray(counts[first[there]], dtype=np.float64), times[there]
    _, first, times = np.unique(key, return_index=True, return_counts=True)
    return np.asarray(counts[first], dtype=np.float64), times


def ratio(
    numerators: Floats,
    denominators: Floats,
    numerator_sums: Floats,
    denominator_sums: Floats,
    *,
    trials: float | None = None,
    confidence: float = 0.95,
) -> Ratio:
    """Estimate a rate over tasks, and how many independent trials it is worth.

    The effective number is `p (1 - p) / variance`, lowered by `(z / t)^2` for the few tasks that the variance
    rests on, and never above the number of trials. At 0 and 1 the bootstrap sees no variance, and each task
    counts as one trial.

    Args:
        numerators: Shape `(tasks,)`, each at most its denominator.
        denominators: Shape `(tasks,)`; tasks with 0 take no part.
        numerator_sums: Shape `(resamples,)` from `resample`.
        denominator_sums: Shape `(resamples,)` from the same call.
        trials: Upper bound of the effective number; the sum of the denominators unless given.
        confidence: At which the interval will be asked for.

    >>> passed, tried = np.array([2.0, 0.0, 1.0, 2.0]), np.full(4, 2.0)
    >>> sums = resample(np.stack([passed, tried], axis=1), 2000, seed=0)
    >>> rate = ratio(passed, tried, sums[:, 0], sums[:, 1])
    >>> rate.value, rate.effective < 4
    (0.625, True)
    """
    total = float(denominators.sum())
    defined = denominator_sums > 0
    replicates = np.full(len(denominator_sums), np.nan)
    np.divide(numerator_sums, denominator_sums, out=replicates, where=defined)
    if total <= 0:
        return Ratio(float("nan"), 0.0, replicates)
    value = float(numerators.sum()) / total
    tasks = int((denominators > 0).sum())
    if tasks < 2:
        return Ratio(value, 0.0, replicates)
    variance = float(np.var(replicates[defined])) * tasks / (tasks - 1)
    effective = value * (1 - value) / variance if variance > 1e-15 else float(tasks)
    effective *= (_normal(confidence) / student_t(confidence, tasks - 1)) ** 2
    return Ratio(value, min(effective, total if trials is None else trials), replicates)


def difference(first: Ratio, second: Ratio, confidence: float = 0.95) -> Estimate:
    """Return `first - second` with its interval, from replicates of the same resamples.

    Zou and Donner (2008), with the correlation of the two estimates (0 where one of them does not vary).

    >>> same = np.array([0.4, 0.5, 0.6])
    >>> difference(Ratio(0.5, 50, same), Ratio(0.5, 50, same))
    Estimate(value=0.0, low=0.0, high=0.0)
    """
    if np.isnan(first.value) or np.isnan(second.value):
        return Estimate(None, None, None)
    value = first.value - second.value
    if first.effective <= 0 or second.effective <= 0:
        return Estimate(value, None, None)
    low_1, high_1 = score_interval(first.value, first.effective, confidence)
    low_2, high_2 = score_interval(second.value, second.effective, confidence)
    r = _correlation(first.replicates, second.replicates)
    below = _combine(first.value - low_1, high_2 - second.value, r)
    above = _combine(high_1 - first.value, second.value - low_2, r)
    return Estimate(value, max(-1.0, value - below), min(1.0, value + above))


def student_t(confidence: float, degrees: int) -> float:
    """Return the two-sided quantile of Student's t.

    >>> round(student_t(0.95, 10), 4), round(student_t(0.95, 3), 4)
    (2.2281, 3.1824)
    """
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.5 + confidence / 2))


def _normal(confidence: float) -> float:
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def _combine(one: float, other: float, r: float) -> float:
    return sqrt(max(0.0, one * one - 2 * r * one * other + other * other))


def _correlation(first: Floats, second: Floats) -> float:
    both = np.isfinite(first) & np.isfinite(second)
    one, other = first[both], second[both]
    if len(one) < 2 or one.std() < 1e-12 or other.std() < 1e-12:
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])
