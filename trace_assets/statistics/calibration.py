"""Does a router that says 80 % turn out right in 80 % of such cases?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def expected_calibration_error(
    confidences: Sequence[float], correct: Sequence[bool], bins: int = 10
) -> float | None:
    """Return the mean distance between confidence and accuracy, over equal-width bins weighted by their size.

    Guo et al. (2017), "On calibration of modern neural networks", ICML, equation 3.

    Args:
        confidences: Probability given to the choice made, in [0, 1].
        correct: Whether that choice was right, as many as `confidences`.
        bins: Number of bins of equal width.

    Returns:
        0 for perfect calibration, at most 1; None without any case.

    Raises:
        ValueError: The lengths differ, or a confidence is not in [0, 1].

    >>> round(expected_calibration_error([0.9, 0.9, 0.6, 0.6], [True, True, True, False]), 3)
    0.1
    """
    p, hit = np.asarray(confidences, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    if p.shape != hit.shape:
        raise ValueError(f"as many confidences as outcomes are needed, got {len(p)} and {len(hit)}")
    if not len(p):
        return None
    if not (np.isfinite(p).all() and (p >= 0).all() and (p <= 1).all()):
        raise ValueError("confidences must be in [0, 1]")
    place = np.minimum((p * bins).astype(np.int64), bins - 1)
    sizes = np.bincount(place, minlength=bins)
    used = sizes > 0
    distance = np.abs(np.bincount(place, p, bins)[used] - np.bincount(place, hit, bins)[used])
    return float(distance.sum() / len(p))
