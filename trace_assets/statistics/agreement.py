"""Do two labelling passes say the same about the same item?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def krippendorff_alpha(codes: NDArray[np.int8] | NDArray[np.int64]) -> float | None:
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
    categories = int(codes.max(initial=-1)) + 1
    if categories < 1:
        return None
    counts = np.stack([(codes == code).sum(axis=1) for code in range(categories)], axis=1).astype(np.float64)
    coded = counts.sum(axis=1)
    counts, coded = counts[coded >= 2], coded[coded >= 2]
    if len(coded) == 0:
        return None
    margins = counts.sum(axis=0)
    total = margins.sum()
    expected = total * total - (margins * margins).sum()
    if expected == 0:
        return None
    disagreement = ((coded * coded - (counts * counts).sum(axis=1)) / (coded - 1)).sum()
    return float(1 - (total - 1) * disagreement / expected)
