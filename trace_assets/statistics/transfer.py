"""Whether two measurements rise together: paired gains, and a correlation over few checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trace_assets.statistics.bootstrap import Estimate
from trace_assets.statistics.paired import swap_p_value

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
