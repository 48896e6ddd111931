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
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    rate = successes / n
    scale = 1 + z * z / n
    centre = (rate + z * z / (2 * n)) / scale
    half = z / scale * sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return low, high
