"""Many candidates are tested at once: the false discovery rate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


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
