"""Wilson's score interval: the interval of a proportion whose trials are independent."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist


def wilson(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the score interval of a binomial proportion.

    Wilson (1927), "Probable inference, the law of succession, and statistical inference", JASA 22:209.
    It stays inside [0, 1], is not empty at 0 or n successes, and needs independent trials: for several trials
    a task use `trace_assets.statistics.bootstrap`.

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
