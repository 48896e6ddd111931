"""Do two labelling passes say the same about the same item?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trace_assets.statistics.bootstrap import Estimate, resample

Codes = NDArray[np.int8] | NDArray[np.int64]


def krippendorff_alpha(codes: Codes) -> float | None:
    """Return Krippendorff's alpha for nominal codes with missing values.

    Krippendorff (2011), "Computing Krippendorff's alpha-reliability", section D: one minus observed over
    expected disagreement, from the coincidence matrix.

    Args:
        codes: Shape `(items, passes)`; negative where a pass says nothing. Items with fewer than two codes
            take no part.

    Returns:
        1 for full agreement, 0 for chance, below 0 for worse; None when no item has two codes, or when only
        one code occurs at all, so that agreement cannot be told from chance.

    >>> krippendorff_alpha(np.array([[0, 0], [1, 1], [0, 0], [1, 1]]))
    1.0
    >>> krippendorff_alpha(np.array([[0, 0], [0, 0]])) is None
    True
    """
    alpha = float(_alpha(_parts(codes).sum(axis=0)[None])[0])
    return None if np.isnan(alpha) else alpha


def alpha_estimate(
    codes: Codes,
    tasks: NDArray[np.int64] | None = None,
    *,
    resamples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Estimate:
    """Return Krippendorff's alpha with a percentile interval from a bootstrap over tasks.

    Alpha is a function of sums over items, so a resample costs no more than summing them.

    Args:
        codes: Shape `(items, passes)`, as for `krippendorff_alpha`.
        tasks: Each item's task, counted from 0, shape `(items,)`; every item by itself unless given.
        resamples: Bootstrap draws.
        seed: The same seed gives the same interval.
        confidence: Nominal coverage.

    Returns:
        The estimate; bounds None where fewer than two tasks have an item with two codes.

    >>> same = np.array([[0, 0], [1, 1]] * 20)
    >>> alpha_estimate(same)
    Estimate(value=1.0, low=1.0, high=1.0)
    """
    value = krippendorff_alpha(codes)
    if value is None:
        return Estimate(None, None, None)
    parts = _parts(codes)
    place = np.arange(len(codes)) if tasks is None else tasks
    counts = np.stack([np.bincount(place, column) for column in parts.T], axis=1)
    counts = counts[counts[:, 1:].sum(axis=1) > 0]
    if len(counts) < 2:
        return Estimate(value, None, None)
    drawn = _alpha(resample(counts, resamples, seed))
    drawn = drawn[np.isfinite(drawn)]
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Estimate(value, float(min(value, low)), float(max(value, high)))


def _parts(codes: Codes) -> NDArray[np.float64]:
    """Return each item's disagreement and its codes by category, 0 throughout with fewer than two codes."""
    categories = int(codes.max(initial=-1)) + 1
    counts = np.stack([(codes == code).sum(axis=1) for code in range(max(1, categories))], axis=1).astype(
        np.float64
    )
    coded = counts.sum(axis=1)
    counts[coded < 2] = 0
    coded = np.maximum(2.0, coded)
    disagreement = (counts.sum(axis=1) ** 2 - (counts * counts).sum(axis=1)) / (coded - 1)
    return np.column_stack([disagreement, counts])


def _alpha(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return alpha of each row of summed parts, NaN where it is undefined."""
    margins = sums[:, 1:]
    total = margins.sum(axis=1)
    expected = total * total - (margins * margins).sum(axis=1)
    result = np.full(len(sums), np.nan)
    defined = expected > 1e-9
    result[defined] = 1 - (total[defined] - 1) * sums[defined, 0] / expected[defined]
    return result
