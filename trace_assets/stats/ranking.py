"""How well scores rank: the area under the ROC curve among comparable pairs, with an interval."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trace_assets.stats.intervals import Estimate

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Ranking:
    """An area under the ROC curve.

    Attributes:
        auc: With its interval; all None without pairs, bounds None where they rest on one cluster.
        n_pairs: Pairs of a positive and a negative that were compared.
    """

    auc: Estimate
    n_pairs: int


def concordance(positive: Floats, negative: Floats) -> Floats:
    """Return for each pair 1 where the positive scores higher, 0.5 on a tie, else 0.

    Args:
        positive: Scores, shape `(p,)`.
        negative: Scores, shape `(n,)`.

    Returns:
        Shape `(p, n)`; its mean is the area under the ROC curve (Hanley and McNeil 1982, "The meaning and
        use of the area under a receiver operating characteristic curve", Radiology 143:29).

    >>> concordance(np.array([1.0, 2.0]), np.array([1.0])).tolist()
    [[0.5], [1.0]]
    """
    above = positive[:, None] > negative[None, :]
    ties = positive[:, None] == negative[None, :]
    pairs: Floats = above + 0.5 * ties
    return pairs


def rank(
    scores: Floats,
    positive: NDArray[np.bool_],
    strata: Sequence[Hashable],
    clusters: Sequence[Hashable],
    *,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Ranking:
    """Estimate the area under the ROC curve among pairs of one stratum.

    The interval is the percentile interval of a bootstrap that draws whole clusters: trials of a task are not
    independent. A resample without a pair is left out.

    Args:
        scores: Shape `(rows,)`.
        positive: Which rows are positives, shape `(rows,)`.
        strata: Only rows of one stratum are compared, such as those that one model scored.
        clusters: Rows that are drawn together.
        resamples: How many times the clusters are drawn.
        confidence: Of the interval.
        seed: The same seed and rows give the same interval.

    >>> told = rank(np.array([2.0, 1.0, 2.0, 1.0]), np.array([True, False] * 2), "aaaa", [1, 1, 2, 2])
    >>> told.auc.value, told.n_pairs
    (1.0, 4)
    """
    _, stratum = np.unique([str(one) for one in strata], return_inverse=True)
    names, cluster = np.unique([str(one) for one in clusters], return_inverse=True)
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, len(names), size=(resamples, len(names))) if len(names) else np.zeros((0, 0), int)
    weights = np.ones((resamples + 1, len(names)))
    for number, row in enumerate(drawn, start=1):
        weights[number] = np.bincount(row, minlength=len(names))
    right, pairs = np.zeros(resamples + 1), np.zeros(resamples + 1)
    for one in range(int(stratum.max(initial=-1)) + 1):
        above = np.flatnonzero((stratum == one) & positive)
        below = np.flatnonzero((stratum == one) & ~positive)
        if not len(above) or not len(below):
            continue
        heavy, light = weights[:, cluster[above]], weights[:, cluster[below]]
        right += ((heavy @ concordance(scores[above], scores[below])) * light).sum(axis=1)
        pairs += heavy.sum(axis=1) * light.sum(axis=1)
    if not pairs[:1].any():
        return Ranking(Estimate(None, None, None), 0)
    value, n_pairs = float(right[0] / pairs[0]), int(pairs[0])
    known = pairs[1:] > 0
    if len(names) < 2 or not known.any():
        return Ranking(Estimate(value, None, None), n_pairs)
    tail = (1 - confidence) / 2
    low, high = np.quantile(right[1:][known] / pairs[1:][known], [tail, 1 - tail])
    return Ranking(Estimate(value, min(value, float(low)), max(value, float(high))), n_pairs)


# Does a router that says 80 % turn out right in 80 % of such cases?


BINS = 10
"""Of equal width, over confidences from 0 to 1."""


def expected_calibration_error(confidences: Sequence[float], correct: Sequence[bool]) -> float | None:
    """Return the mean distance between confidence and accuracy over `BINS`, weighted by their size.

    Guo et al. (2017), "On calibration of modern neural networks", ICML, equation 3.

    Args:
        confidences: Probability given to the choice made, in [0, 1].
        correct: Whether that choice was right, as many as `confidences`.

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
    place = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    sizes = np.bincount(place, minlength=BINS)
    used = sizes > 0
    distance = np.abs(np.bincount(place, p, BINS)[used] - np.bincount(place, hit, BINS)[used])
    return float(distance.sum() / len(p))


@dataclass(frozen=True)
class ReliabilityBin:
    """Choices of similar confidence: their mean confidence, how many there were and how many were right."""

    confidence: float
    n: int
    right: int


def reliability_bins(confidences: Sequence[float], correct: Sequence[bool]) -> list[ReliabilityBin]:
    """Return the bins that `expected_calibration_error` averages over, empty ones left out.

    >>> reliability_bins([0.9, 0.9, 0.2], [True, False, False])
    [ReliabilityBin(confidence=0.2, n=1, right=0), ReliabilityBin(confidence=0.9, n=2, right=1)]
    """
    members: dict[int, list[int]] = {}
    for place, confidence in enumerate(confidences):
        members.setdefault(min(int(confidence * BINS), BINS - 1), []).append(place)
    return [
        ReliabilityBin(
            confidence=sum(confidences[place] for place in own) / len(own),
            n=len(own),
            right=sum(bool(correct[place]) for place in own),
        )
        for _, own in sorted(members.items())
    ]
