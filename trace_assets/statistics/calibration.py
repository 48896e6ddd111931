"""Does a router that says 80 % turn out right in 80 % of such cases?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class ReliabilityBin:
    """Choices of similar confidence: their mean confidence, how many there were and how many were right."""

    confidence: float
    n: int
    right: int


def reliability_bins(
    confidences: Sequence[float], correct: Sequence[bool], bins: int = 10
) -> list[ReliabilityBin]:
    """Return the bins that `expected_calibration_error` averages over, empty ones left out.

    Args:
        confidences: Probability given to the choice made, in [0, 1].
        correct: Whether that choice was right, as many as `confidences`.
        bins: Number of bins of equal width.

    >>> reliability_bins([0.9, 0.9, 0.2], [True, False, False])
    [ReliabilityBin(confidence=0.2, n=1, right=0), ReliabilityBin(confidence=0.9, n=2, right=1)]
    """
    members: dict[int, list[int]] = {}
    for place, confidence in enumerate(confidences):
        members.setdefault(min(int(confidence * bins), bins - 1), []).append(place)
    return [
        ReliabilityBin(
            confidence=sum(confidences[place] for place in own) / len(own),
            n=len(own),
            right=sum(bool(correct[place]) for place in own),
        )
        for _, own in sorted(members.items())
    ]
