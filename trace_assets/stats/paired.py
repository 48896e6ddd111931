"""Two arms on the same tasks: difference of pass rates, McNemar's test, pass^k."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from trace_assets.stats.intervals import Estimate, difference, ratio, resample

# The gap between runs of the same task: what difficulty cannot explain.


@dataclass(frozen=True)
class MatchedGap:
    """A gap from pairs of one failed and one passed trial of the same task.

    Attributes:
        gap: The estimate, all None without a pair, bounds None where one task gives all pairs.
        pairs: Disjoint pairs: the smaller of the two sides, summed over tasks.
        tasks: Tasks with relevant trials on both sides.
    """

    gap: Estimate
    pairs: int
    tasks: int


def matched_gap(
    failed_lacking: Ints,
    failed_relevant: Ints,
    passed_lacking: Ints,
    passed_relevant: Ints,
    *,
    varying: bool = False,
    resamples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> MatchedGap:
    """Estimate the gap within tasks that have both outcomes among their relevant trials.

    Mantel and Haenszel's common risk difference (Greenland and Robins 1985, "Estimation of a common effect
    parameter from sparse follow-up data", Biometrics 41:55): each task's difference of lacking rates is
    weighted by f p / (f + p) for f failed and p passed trials, so with one of each every pair weighs the
    same. A capability that is lacking in hard tasks but costs nothing has a gap over all trials and none
    here. The interval is that of the other rates, from a bootstrap over these tasks.

    Args:
        failed_lacking: LACKING among failed trials, shape `(tasks,)`.
        failed_relevant: LACKING or PRESENT among failed trials.
        passed_lacking: The same among passed trials.
        passed_relevant: The same among passed trials.
        varying: Only tasks whose relevant trials differ in the label too. Where all trials of a task lack it
            alike, trials of one task cannot say whether that matters, and pull the estimate to 0.
        resamples: Bootstrap draws.
        seed: The same seed gives the same interval.
        confidence: Nominal coverage.

    >>> one, no = np.ones(30, dtype=np.int64), np.zeros(30, dtype=np.int64)
    >>> found = matched_gap(one, one, no, one)
    >>> found.gap.value, found.pairs, found.tasks
    (1.0, 30, 30)
    >>> matched_gap(one, one, no, no).gap.value is None
    True
    """
    both = (failed_relevant > 0) & (passed_relevant > 0)
    if varying:
        lacking_trials = failed_lacking + passed_lacking
        both &= (lacking_trials > 0) & (lacking_trials < failed_relevant + passed_relevant)
    f, p = failed_relevant[both].astype(np.float64), passed_relevant[both].astype(np.float64)
    pairs, tasks = int(np.minimum(f, p).sum()), int(both.sum())
    if tasks == 0:
        return MatchedGap(Estimate(None, None, None), 0, 0)
    weight = f * p / (f + p)
    lacking, kept = weight * failed_lacking[both] / f, weight * passed_lacking[both] / p
    sums = resample(np.stack([lacking, kept, weight], axis=1), resamples, seed)
    failed = ratio(lacking, weight, sums[:, 0], sums[:, 2], trials=float(f.sum()), confidence=confidence)
    passed = ratio(kept, weight, sums[:, 1], sums[:, 2], trials=float(p.sum()), confidence=confidence)
    return MatchedGap(difference(failed, passed, confidence), pairs, tasks)


Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Comparison:
    """Pass rates of two arms on the tasks that both were judged on, and their difference."""

    arm: Estimate
    base: Estimate
    delta: Estimate
    n_tasks: int


def pass_rate(
    successes: Ints, trials: Ints, *, resamples: int = 2000, seed: int = 0, confidence: float = 0.95
) -> Estimate:
    """Return the mean over tasks of the share of trials that passed, with its task-clustered interval.

    Args:
        successes: Shape `(tasks,)`.
        trials: Judged trials, shape `(tasks,)`; tasks with none take no part.
        resamples: Bootstrap draws.
        seed: The same seed gives the same interval.
        confidence: Nominal coverage.

    >>> pass_rate(np.array([4, 0, 2]), np.array([4, 4, 4])).value
    0.5
    """
    return compare(
        successes, trials, successes, trials, resamples=resamples, seed=seed, confidence=confidence
    ).arm


def compare(
    successes: Ints,
    trials: Ints,
    base_successes: Ints,
    base_trials: Ints,
    *,
    resamples: int = 2000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Comparison:
    """Compare an arm with the base arm by a paired bootstrap over tasks.

    Every task weighs the same however many of its trials could be judged, and one draw of tasks serves both
    arms, so what makes a task hard for both cancels out.

    Args:
        successes: The arm's passed trials, shape `(tasks,)`.
        trials: The arm's judged trials, shape `(tasks,)`.
        base_successes: The base arm's, same tasks in the same order.
        base_trials: The base arm's, same tasks in the same order.
        resamples: Bootstrap draws.
        seed: The same seed gives the same intervals.
        confidence: Nominal coverage.

    Returns:
        Rates on the tasks with judged trials in both arms; all None when there are none.

    >>> base, arm, four = np.array([0, 2, 1, 3]), np.array([4, 4, 2, 4]), np.full(4, 4)
    >>> compare(arm, four, base, four).delta.value
    0.5
    """
    both = (trials > 0) & (base_trials > 0)
    ones = np.ones(int(both.sum()))
    arm_rates, base_rates = successes[both] / trials[both], base_successes[both] / base_trials[both]
    sums = resample(np.stack([arm_rates, base_rates, ones], axis=1), resamples, seed)
    arm = ratio(
        arm_rates, ones, sums[:, 0], sums[:, 2], trials=float(trials[both].sum()), confidence=confidence
    )
    base = ratio(
        base_rates, ones, sums[:, 1], sums[:, 2], trials=float(base_trials[both].sum()), confidence=confidence
    )
    return Comparison(
        arm.estimate(confidence),
        base.estimate(confidence),
        difference(arm, base, confidence),
        int(both.sum()),
    )


def mcnemar(only_first: int, only_second: int) -> float:
    """Return the exact two-sided p-value of McNemar's test.

    McNemar (1947), Psychometrika 12:153, with the binomial distribution of the discordant pairs.

    Raises:
        ValueError: A count is negative.

    >>> mcnemar(1, 9)
    0.021484375
    >>> mcnemar(0, 0)
    1.0
    """
    if min(only_first, only_second) < 0:
        raise ValueError(f"counts must not be negative, got {only_first} and {only_second}")
    n, fewer = only_first + only_second, min(only_first, only_second)
    tail = sum(comb(n, k) for k in range(fewer + 1))
    return min(1.0, float(2 * tail / 2**n))


def swap_p_value(differences: NDArray[np.float64], permutations: int = 10_000, seed: int = 0) -> float:
    """Return the two-sided p-value of the mean difference when the arms of each task are swapped at random.

    Fisher (1935), "The design of experiments", section 21: under the null hypothesis each task's difference
    is as likely to have the other sign. With differences of -1, 0 and 1 alone this is McNemar's exact test.
    All swaps are tried up to 16 differing tasks; beyond, they are sampled, and p is never 0 (Phipson and
    Smyth 2010).

    Args:
        differences: One a task, shape `(tasks,)`; those of 0 say nothing.
        permutations: How many swaps to sample.
        seed: Of the sample.

    >>> swap_p_value(np.array([1.0] * 9 + [-1.0])) == mcnemar(1, 9)
    True
    >>> swap_p_value(np.zeros(3))
    1.0
    """
    moved = differences[differences != 0]
    if len(moved) == 0:
        return 1.0
    observed = abs(float(moved.sum())) - 1e-9
    if set(np.abs(moved).tolist()) == {1.0}:
        return mcnemar(int((moved > 0).sum()), int((moved < 0).sum()))
    if len(moved) <= 16:
        signs = 1 - 2 * ((np.arange(2 ** len(moved))[:, None] >> np.arange(len(moved))) & 1)
        return float((np.abs(signs @ moved) >= observed).mean())
    rng = np.random.default_rng(seed)
    sums = np.zeros(permutations)
    values, times = np.unique(np.abs(moved), return_counts=True)
    for value, n in zip(values, times, strict=True):
        sums += value * (2 * rng.binomial(int(n), 0.5, size=permutations) - n)
    return float((1 + int((np.abs(sums) >= observed).sum())) / (1 + permutations))


def pass_hat_k(successes: Ints, trials: Ints, k: int) -> float | None:
    """Return the probability that k trials of a task all pass, averaged over tasks.

    Yao et al. (2024), "tau-bench", section 4: C(passed, k) / C(trials, k) is unbiased for each task.

    Args:
        successes: Shape `(tasks,)`.
        trials: Judged trials, shape `(tasks,)`; tasks with fewer than k take no part.
        k: At least 1.

    Returns:
        The estimate; None when no task has k trials.

    Raises:
        ValueError: `k` is below 1.

    >>> pass_hat_k(np.array([4, 2, 3]), np.array([4, 4, 3]), 3)
    0.6666666666666666
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    shares = [comb(int(c), k) / comb(int(n), k) for c, n in zip(successes, trials, strict=True) if n >= k]
    return sum(shares) / len(shares) if shares else None


# Whether two measurements rise together: paired gains, and a correlation over few checkpoints.


Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Gain:
    """A mean paired difference.

    Attributes:
        value: Mean over units, such as tasks.
        low: Lower end of its 95 % interval.
        high: Upper end.
        p: Two-sided sign-flip p-value.
        n: Units.
    """

    value: float
    low: float
    high: float
    p: float
    n: int


def gain(differences: Floats, *, resamples: int = 2000, seed: int = 0) -> Gain:
    """Return the mean of paired differences with its interval and test.

    The interval is the percentile interval of a bootstrap over units. Where hardly a unit differs that is too
    short (with none it is a point), so there it reaches at least 3 / n to either side of the mean: the rule
    of three (Hanley and Lippman-Hand 1983, "If nothing goes wrong, is everything all right?", JAMA 249:1743),
    for differences of at most 1.

    Args:
        differences: One a unit, after minus before, in [-1, 1]; shape `(n,)`.
        resamples: Bootstrap draws.
        seed: The same seed gives the same interval.

    Raises:
        ValueError: There is no unit.

    >>> found = gain(np.array([1.0] * 12 + [0.0] * 4))
    >>> found.value, found.low > 0.4, found.p < 0.001
    (0.75, True, True)
    >>> gain(np.zeros(30)).high
    0.1
    """
    n = len(differences)
    if n == 0:
        raise ValueError("there is no unit with a difference")
    rng = np.random.default_rng(seed)
    value = float(differences.mean())
    drawn = differences[rng.integers(0, n, size=(resamples, n))].mean(axis=1)
    low, high = (float(bound) for bound in np.quantile(drawn, [0.025, 0.975]))
    least = min(1.0, 3 / n) if np.count_nonzero(differences) < 5 else 0.0
    return Gain(value, min(low, value - least), max(high, value + least), swap_p_value(differences), n)


def correlation(first: Floats, second: Floats, *, resamples: int = 2000, seed: int = 0) -> Estimate:
    """Return Pearson's correlation of two measurements over checkpoints.

    The checkpoints are those that there are; the interval says how far their means could be others with other
    units, by drawing units of each side anew. It is no interval over other runs of training.

    Args:
        first: Shape `(checkpoints, units)`, such as rewards of seeds.
        second: Shape `(checkpoints, other units)`, such as pass rates of tasks.
        resamples: Bootstrap draws.
        seed: The same seed gives the same interval.

    Returns:
        All None with fewer than three checkpoints or where one side does not move; bounds None where a side
        rests on one unit.

    >>> rising = np.array([[0.0, 0.1], [0.4, 0.5], [0.9, 1.0]])
    >>> correlation(rising, rising).value
    1.0
    """
    value = _pearson(first.mean(axis=1)[None], second.mean(axis=1)[None])[0]
    if len(first) < 3 or np.isnan(value):
        return Estimate(None, None, None)
    if min(first.shape[1], second.shape[1]) < 2:
        return Estimate(round(float(value), 12), None, None)
    rng = np.random.default_rng(seed)
    sides = [side[:, rng.integers(0, side.shape[1], (resamples, side.shape[1]))] for side in (first, second)]
    drawn = _pearson(*(side.mean(axis=2).T for side in sides))
    # A draw in which a side stands still has no correlation: it may be anything.
    drawn = np.concatenate([drawn[~np.isnan(drawn)], np.tile([-1.0, 1.0], int(np.isnan(drawn).sum()))])
    low, high = np.quantile(drawn, [0.025, 0.975])
    rounded = round(float(value), 12)
    return Estimate(rounded, min(rounded, float(low)), max(rounded, float(high)))


def _pearson(first: Floats, second: Floats) -> Floats:
    """Return the correlation of each row, NaN where a row does not vary."""
    a, b = (side - side.mean(axis=1, keepdims=True) for side in (first, second))
    scale = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(scale > 1e-12, (a * b).sum(axis=1) / scale, np.nan))
