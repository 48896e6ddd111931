"""Two arms on the same tasks: difference of pass rates, McNemar's test, pass^k."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from trace_assets.statistics.bootstrap import Estimate, difference, ratio, resample

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

    Args:
        only_first: Pairs that passed under the first arm alone.
        only_second: Pairs that passed under the second arm alone.

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
