"""Statistics over worlds: what a method is worth, beyond the one model that it was tried on.

A world is everything made anew from its seeds: base model, tasks, training. Trials and tasks of one world say
what that world's model is worth; only differences between worlds say what a method is worth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np

from trace_assets.stats.intervals import student_t

Verdict = Literal["better", "worse", "tied", "undecided"]


@dataclass(frozen=True)
class Across:
    """A paired difference over worlds.

    Attributes:
        mean: Of the worlds' differences; None without a world.
        low: Of its t interval; None with fewer than two worlds.
        high: Likewise.
        n: Worlds.
        sd: Between worlds; None with fewer than two.
        p: Two-sided, of no difference; None with fewer than two.
    """

    mean: float | None
    low: float | None
    high: float | None
    n: int
    sd: float | None
    p: float | None


def across(differences: Sequence[float], confidence: float = 0.95) -> Across:
    """Return the mean difference over worlds with its paired t interval and p-value.

    Args:
        differences: One a world: pass rate of an arm minus its rival's on the same tasks, in [-1, 1].
        confidence: Level of the interval.

    >>> found = across([0.05, 0.07, 0.06])
    >>> round(found.mean, 3), round(found.low, 3), round(found.high, 3), found.n
    (0.06, 0.035, 0.085, 3)
    >>> across([0.05]).low is None
    True
    >>> across([0.02, 0.02]).p  # worlds that agree to the last digit show no more than their signs do
    0.5
    """
    values = np.asarray(differences, dtype=np.float64)
    n = len(values)
    if n == 0:
        return Across(None, None, None, 0, None, None)
    mean = float(values.mean())
    if n == 1:
        return Across(mean, None, None, 1, None, None)
    sd = float(values.std(ddof=1))
    half = student_t(confidence, n - 1) * sd / sqrt(n)
    return Across(mean, mean - half, mean + half, n, sd, _two_sided(mean, sd, n))


def _two_sided(mean: float, sd: float, n: int) -> float:
    from scipy.special import stdtr

    if sd == 0:
        return 1.0 if mean == 0 else 2.0 ** (1 - n)
    return float(2 * stdtr(n - 1, -abs(mean) / (sd / sqrt(n))))


def tie_p_value(differences: Sequence[float], margin: float) -> float | None:
    """Return the p-value of two one-sided tests (Schuirmann 1987), small where a tie is shown.

    Args:
        differences: One a world.
        margin: What counts as no difference, above 0.

    >>> tie_p_value([0.001, -0.002, 0.0, 0.002], 0.02) < 0.01
    True
    >>> tie_p_value([0.03, -0.02, 0.05, -0.04], 0.02) > 0.05
    True
    >>> tie_p_value([0.01], 0.02) is None
    True
    """
    from scipy.special import stdtr

    values = np.asarray(differences, dtype=np.float64)
    n = len(values)
    if n < 2:
        return None
    mean, sd = float(values.mean()), float(values.std(ddof=1))
    if sd == 0:
        return 2.0**-n if abs(mean) < margin else 1.0
    error = sd / sqrt(n)
    return float(max(stdtr(n - 1, -(mean + margin) / error), stdtr(n - 1, (mean - margin) / error)))


def holm(p_values: Mapping[str, float | None]) -> dict[str, float | None]:
    """Return p-values adjusted for as many comparisons as there are (Holm 1979), those without one left so.

    A comparison without a p-value still counts as one that was planned.

    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'b': 0.06, 'c': 0.06}
    >>> holm({"a": 0.02, "b": None})
    {'a': 0.04, 'b': None}
    """
    known = sorted((p, name) for name, p in p_values.items() if p is not None)
    adjusted: dict[str, float | None] = dict.fromkeys(p_values)
    highest = 0.0
    for place, (p, name) in enumerate(known):
        highest = max(highest, min(1.0, (len(p_values) - place) * p))
        adjusted[name] = highest
    return adjusted


def verdict(
    found: Across, adjusted_p: float | None, adjusted_tie_p: float | None, margin: float, alpha: float
) -> Verdict:
    """Say what is shown of a comparison: a difference, a tie within the margin, or neither.

    A tie takes both its p-value and the interval that is printed: nobody should read of a tie beside bounds
    that go beyond it.

    Args:
        found: The difference.
        adjusted_p: Of no difference, after Holm.
        adjusted_tie_p: Of `tie_p_value`, after Holm.
        margin: What counts as no difference.
        alpha: Level.

    >>> verdict(across([0.05, 0.06, 0.07]), 0.01, 1.0, 0.02, 0.05)
    'better'
    >>> verdict(across([-0.001, 0.001, 0.0]), 1.0, 0.001, 0.02, 0.05)
    'tied'
    >>> verdict(across([-0.005, 0.0]), 0.5, 0.045, 0.02, 0.05), verdict(across([0.0]), None, None, 0.02, 0.05)
    ('undecided', 'undecided')
    """
    if found.low is None or found.high is None or found.mean is None or adjusted_p is None:
        return "undecided"
    within = -margin < found.low and found.high < margin
    if within and adjusted_tie_p is not None and adjusted_tie_p < alpha:
        return "tied"
    if adjusted_p < alpha:
        return "better" if found.mean > 0 else "worse"
    return "undecided"


def power(worlds: int, difference: float, sd: float, alpha: float = 0.05) -> float:
    """Return the chance that a paired t-test over worlds shows a difference (noncentral t, two-sided).

    Args:
        worlds: How many.
        difference: The true one.
        sd: Between worlds, of the difference.
        alpha: Level; a third of it, for the first of three comparisons under Holm.

    >>> power(6, 0.05, 0.023) > 0.9, power(3, 0.02, 0.023) < 0.3, power(1, 0.5, 0.01)
    (True, True, 0.0)
    """
    from scipy.stats import nct

    if worlds < 2:
        return 0.0
    shift, limit = difference / (sd / sqrt(worlds)), student_t(1 - alpha, worlds - 1)
    upper, lower = nct.sf(limit, worlds - 1, shift), nct.cdf(-limit, worlds - 1, shift)
    return float(np.nan_to_num(upper) + np.nan_to_num(lower))


def worlds_for(difference: float, sd: float, alpha: float = 0.05) -> int | None:
    """Return how many worlds show a difference with a power of 80 %; None where 60 do not.

    >>> worlds_for(0.05, 0.023, alpha=0.05 / 3), worlds_for(0.001, 0.05)
    (6, None)
    """
    return next((n for n in range(2, 61) if power(n, difference, sd, alpha) >= 0.8), None)
