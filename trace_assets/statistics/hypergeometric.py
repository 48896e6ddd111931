"""The hypergeometric distribution, without SciPy."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@lru_cache(maxsize=8)
def _log_factorials(top: int) -> Floats:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, top + 1)))])


def log_factorials(n: int) -> Floats:
    """Return the logarithms of 0!, 1!, ... at least up to n!.

    >>> round(float(np.exp(log_factorials(5)[5])), 6)
    120.0
    """
    return _log_factorials(max(64, 1 << (n - 1).bit_length()) if n > 0 else 64)


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
    logs = log_factorials(good + bad)
    k = np.arange(min(good, draws) + 1)
    possible = draws - k <= bad
    others = np.where(possible, draws - k, 0)
    log_p = (
        (logs[good] - logs[k] - logs[good - k])
        + (logs[bad] - logs[others] - logs[bad - others])
        - (logs[good + bad] - logs[draws] - logs[good + bad - draws])
    )
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
