"""How many tasks and trials a study needs: for a gap to be selected, for a gain to be shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from trace_assets.stats.tests import log_choose

_NORMAL = NormalDist()
MOST_TASKS = 1_000_000
"""Beyond which no study is planned."""


@dataclass(frozen=True)
class GapDesign:
    """A deficit to be found, and the rule by which it is selected.

    Attributes:
        gap: True gap, ER- minus ER+.
        er_passed: True ER+.
        coverage: True coverage of failures; with ER- it says how many failures need the capability.
        pass_rate: Of the agent.
        trials: Of each task.
        icc: Correlation of the lack between trials of one task that needs the capability: 0 for none, 1 when
            all of them lack it or none does. The higher it is, the less further trials say.
        considered: Candidates that the test is corrected for; the deficit is taken to be the clearest, so its
            p-value must reach `max_q / considered`.
        max_q: As in the selection.
        min_gap: What the estimate must reach.
        min_gap_low: What its lower bound must reach.
        min_coverage: What the estimate must reach.
        min_coverage_low: What its lower bound must reach.
        min_relevant: Relevant trajectories required on both sides.

    Raises:
        ValueError: The figures contradict each other, such as a coverage above ER-.
    """

    gap: float
    er_passed: float = 0.1
    coverage: float = 0.2
    pass_rate: float = 0.5
    trials: int = 1
    icc: float = 0.3
    considered: int = 20
    max_q: float = 0.05
    min_gap: float = 0.2
    min_gap_low: float = 0.0
    min_coverage: float = 0.1
    min_coverage_low: float = 0.05
    min_relevant: int = 10

    def __post_init__(self) -> None:
        if not 0 < self.pass_rate < 1:
            raise ValueError(f"the pass rate must be between 0 and 1, got {self.pass_rate}")
        if not 0 < self.gap <= 1 - self.er_passed or self.er_passed < 0:
            raise ValueError(
                f"a gap of {self.gap} does not fit an ER+ of {self.er_passed}: their sum is ER-, a share of "
                "at most 1 (30 points are 0.3)"
            )
        if not 0 < self.coverage <= self.er_failed:
            raise ValueError(
                f"a coverage of {self.coverage} cannot be above ER-, which is {self.er_failed:.2f} here"
            )
        if self.trials < 1 or not 0 <= self.icc <= 1 or self.considered < 1:
            raise ValueError("trials and considered must be at least 1, and the icc in 0..1")

    @property
    def er_failed(self) -> float:
        """ER-."""
        return self.er_passed + self.gap

    @property
    def needed(self) -> float:
        """Share of failures that need the capability; taken to be that of successes too."""
        return self.coverage / self.er_failed


def gap_power(design: GapDesign, tasks: int) -> float:
    """Return the probability that a study of so many tasks selects the deficit.

    Tasks that need the capability lack it with a proneness of their own, beta distributed with the design's
    icc, so lacking trials of a task are beta-binomial; a trial fails at one rate when it lacks it and at
    another when it does not, which follow from ER-, ER+ and the pass rate. Over all that can happen to a
    task, that gives mean and variance of the permutation statistic (within tasks with both outcomes, between
    the others), of the gap and of the coverage; each is then taken to be normal. The deficit is selected
    when it is significant *and* gap and coverage reach their thresholds, so with a true gap at the
    threshold no number of tasks gives more than one half. That the three go together is not used but for
    the first two, which are nearly one: of these the smaller probability counts.

    >>> design = GapDesign(gap=0.4, coverage=0.3, trials=4)
    >>> gap_power(design, 30) < 0.5 < 0.9 < gap_power(design, 300)
    True
    """
    return _Moments(design).power(tasks)


class _Moments:
    """Moments of one task's contributions, by summing over all that can happen to it."""

    def __init__(self, design: GapDesign) -> None:
        self.design = design
        k, failing = design.trials, 1 - design.pass_rate
        lacking = design.er_failed * failing + design.er_passed * design.pass_rate
        fail_lacking = design.er_failed * failing / lacking
        fail_other = (1 - design.er_failed) * failing / max(1e-12, 1 - lacking)
        a, x, y = (grid.ravel().astype(np.float64) for grid in np.indices((k + 1, k + 1, k + 1)))
        possible = (x <= a) & (y <= k - a)
        a, x, y = a[possible], x[possible], y[possible]  # lacking; lacking and failed; other and failed
        weight = _beta_binomial(k, lacking, design.icc)[a.astype(int)]
        weight = weight * _binomial(a, x, fail_lacking) * _binomial(k - a, y, fail_other)
        failed = x + y
        mixed = (failed > 0) & (failed < k)

        def mean(values: NDArray[np.float64]) -> float:
            return float((weight * values).sum())

        uniform = float(weight[~mixed].sum())
        all_fail = float(weight[failed == k].sum()) / uniform if uniform > 0 else 0.0
        mean_lacking = mean(np.where(mixed, 0.0, a)) / uniform if uniform > 0 else 0.0
        centred = np.where(mixed, x - a * failed / k, (a - mean_lacking) * ((failed == k) - all_fail))
        self.shift = mean(centred)
        self.variance = mean((centred - self.shift) ** 2)
        within = failed * (k - failed) * a * (k - a) / (k * k * max(1, k - 1))
        between = (a - mean_lacking) ** 2 * all_fail * (1 - all_fail)
        self.null_variance = mean(np.where(mixed, within, between))
        self.failed, self.passed = mean(failed), mean(k - failed)
        influence = (x - design.er_failed * failed) / self.failed
        influence -= ((a - x) - design.er_passed * (k - failed)) / self.passed
        self.gap_variance = mean(influence**2)
        r, own = design.needed, design.coverage
        elsewhere = own**2 * (k * failing * (1 - failing) + (k * failing) ** 2)  # tasks that do not need it
        total = r * mean((x - own * failed) ** 2) + (1 - r) * elsewhere
        self.coverage_variance = total / (k * failing) ** 2

    def power(self, tasks: int) -> float:
        """Return the power with so many tasks, of which the design's share needs the capability."""
        design, n = self.design, tasks * self.design.needed
        if min(n * self.failed, n * self.passed) < design.min_relevant:
            return 0.0
        critical = _NORMAL.inv_cdf(1 - design.max_q / design.considered) * sqrt(self.null_variance)
        step = 0.5 / sqrt(n)  # continuity: the statistic is a count
        significant = _above(sqrt(n) * self.shift - step - critical, sqrt(self.variance))
        se, z = sqrt(self.gap_variance / n), _NORMAL.inv_cdf(0.975)
        large = _above(design.gap - max(design.min_gap, design.min_gap_low + z * se), se)
        se = sqrt(self.coverage_variance / tasks)
        bound = max(design.min_coverage, design.min_coverage_low + z * se)
        return min(significant, large) * _above(design.coverage - bound, se)


def _above(distance: float, se: float) -> float:
    return float(_NORMAL.cdf(distance / max(se, 1e-9)))


def _binomial(n: NDArray[np.float64], k: NDArray[np.float64], p: float) -> NDArray[np.float64]:
    return np.asarray(np.exp(log_choose(n, k)) * p**k * (1 - p) ** (n - k))


def _beta_binomial(n: int, mean: float, icc: float) -> NDArray[np.float64]:
    """Return the probabilities of 0..n, binomial at an icc of 0 and all or nothing at 1."""
    k = np.arange(n + 1).astype(np.float64)
    if icc < 1e-6 or n == 1:
        return _binomial(np.full(n + 1, float(n)), k, mean)
    if icc > 1 - 1e-6:
        return np.asarray(np.where(k == n, mean, np.where(k == 0, 1 - mean, 0.0)))
    from scipy.special import betaln

    a, b = mean * (1 / icc - 1), (1 - mean) * (1 / icc - 1)
    return np.asarray(np.exp(log_choose(n, k) + betaln(k + a, n - k + b) - betaln(a, b)))


def gap_tasks(design: GapDesign, power: float = 0.8) -> int | None:
    """Return the fewest tasks with which the deficit is selected with a given probability.

    Returns:
        Tasks, each with `design.trials` trials; None when no number reaches it, as with a gap that is not
        above the threshold.

    >>> gap_tasks(GapDesign(gap=0.2, min_gap=0.2)) is None
    True
    """
    return _fewest(_Moments(design).power, power)


@dataclass(frozen=True)
class GainDesign:
    """A gain to be shown by two arms on the same tasks.

    Attributes:
        gain: True difference of pass rates.
        base_rate: Pass rate of the base arm.
        discordance: Share of paired trials whose outcomes differ. It is the smaller the more the same tasks
            are hard for both; None takes 0.6 of what independent arms would have.
        trials: Of each task in each arm.
        icc: Correlation of the difference between trials of one task.
        alpha: Two-sided level.

    Raises:
        ValueError: The figures contradict each other.
    """

    gain: float
    base_rate: float = 0.4
    discordance: float | None = None
    trials: int = 4
    icc: float = 0.1
    alpha: float = 0.05

    def __post_init__(self) -> None:
        if not 0 < self.base_rate < 1 or not 0 < self.base_rate + self.gain < 1 or self.gain == 0:
            raise ValueError(
                f"a gain of {self.gain} does not fit a base rate of {self.base_rate}: their sum is a share "
                "between 0 and 1 (10 points are 0.1)"
            )
        if not abs(self.gain) <= self.differing <= 1:
            raise ValueError(
                f"a gain of {self.gain} needs a discordance between {abs(self.gain)} and 1, "
                f"got {self.differing:.2f}"
            )
        if self.trials < 1 or not 0 <= self.icc <= 1 or not 0 < self.alpha < 1:
            raise ValueError("trials must be at least 1, the icc in 0..1 and alpha in (0, 1)")

    @property
    def differing(self) -> float:
        """Discordance, with its default."""
        if self.discordance is not None:
            return self.discordance
        arm = self.base_rate + self.gain
        return max(abs(self.gain), 0.6 * (arm * (1 - self.base_rate) + self.base_rate * (1 - arm)))


def gain_power(design: GainDesign, tasks: int) -> float:
    """Return the probability that so many tasks show the gain to be other than 0.

    McNemar's test on paired trials (Connor 1987, "Sample size for testing differences in proportions for the
    paired-sample design", Biometrics 43:207) with the design effect 1 + (trials - 1) icc.

    >>> design = GainDesign(gain=0.12)
    >>> gain_power(design, 15) < 0.5 < 0.9 < gain_power(design, 100)
    True
    """
    pairs = tasks * design.trials / (1 + (design.trials - 1) * design.icc)
    d, psi = abs(design.gain), design.differing
    shown = d * sqrt(pairs) - _NORMAL.inv_cdf(1 - design.alpha / 2) * sqrt(psi)
    return float(_NORMAL.cdf(shown / sqrt(max(1e-12, psi - d * d))))


def gain_tasks(design: GainDesign, power: float = 0.8) -> int | None:
    """Return the fewest tasks that show the gain with a given probability; None beyond all bounds.

    What a difference of 7.3 points takes, as between 77 and 65 of 164 tasks, depends on how far the two arms
    pass the same tasks:

    >>> [gain_tasks(GainDesign(0.0732, 0.396, discordance, trials=1)) for discordance in (0.2, 0.3, 0.39)]
    [291, 438, 569]
    """
    return _fewest(lambda tasks: gain_power(design, tasks), power)


def _fewest(power_of: Callable[[int], float], power: float) -> int | None:
    """Return the smallest number of tasks with at least that power, by bisection: power rises with tasks."""
    if not 0 < power < 1:
        raise ValueError(f"the power must be between 0 and 1, got {power}")
    low, high = 0, 1
    while power_of(high) < power:
        low, high = high, 2 * high
        if high > MOST_TASKS:
            return None  # such as with a gap that is not above the threshold
    while high - low > 1:
        middle = ceil((low + high) / 2)
        if power_of(middle) >= power:
            high = middle
        else:
            low = middle
    return high
