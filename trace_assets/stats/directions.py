"""Directions estimated from samples: the cosine between two of them, and how far each can be relied on."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SPLITS = 50
"""Random halvings behind a split-half reliability."""


@dataclass(frozen=True)
class Cosine:
    """The cosine of two mean vectors.

    Attributes:
        value: Of the means; None where one of them is zero.
        low: 95 % bootstrap interval over samples.
        high: Its upper end.
    """

    value: float | None
    low: float | None
    high: float | None


def cosine(one: Floats, other: Floats) -> float | None:
    """Return the cosine of two vectors; None where one is zero.

    >>> cosine(np.array([1.0, 0.0]), np.array([-2.0, 0.0])), cosine(np.zeros(2), np.ones(2))
    (-1.0, None)
    """
    size = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(np.clip(one @ other / size, -1.0, 1.0)) if size > 0 else None


def compare_directions(
    one: Floats, other: Floats, *, resamples: int = 500, seed: int = 0, level: float = 0.95
) -> Cosine:
    """Return the cosine of the means of two sets of samples, with a bootstrap interval over samples.

    Args:
        one: A row a sample, such as the policy gradient of one group of rollouts; dead groups are rows of 0.
        other: Likewise, in the same coordinates.
        resamples: Bootstrap draws; each set is drawn apart.
        seed: The same seed gives the same interval.
        level: Of the interval.

    >>> rng = np.random.default_rng(0)
    >>> a = rng.normal(size=(40, 3)) * 0.1 + np.array([1.0, 0.0, 0.0])
    >>> found = compare_directions(a, -a)
    >>> round(found.value, 3), found.high < -0.99
    (-1.0, True)
    """
    value = cosine(one.mean(0), other.mean(0)) if len(one) and len(other) else None
    if value is None:
        return Cosine(None, None, None)
    # All that a resample needs are inner products of samples.
    within, across, beside = one @ one.T, one @ other.T, other @ other.T
    rng = np.random.default_rng(seed)
    drawn: list[float] = []
    for _ in range(resamples):
        left = np.bincount(rng.integers(len(one), size=len(one)), minlength=len(one)) / len(one)
        right = np.bincount(rng.integers(len(other), size=len(other)), minlength=len(other)) / len(other)
        lengths = float(left @ within @ left), float(right @ beside @ right)
        size = math.sqrt(max(lengths[0], 0.0) * max(lengths[1], 0.0))
        drawn.append(min(1.0, max(-1.0, float(left @ across @ right) / size)) if size > 0 else 0.0)
    tail = 100 * (1 - level) / 2
    low, high = float(np.percentile(drawn, tail)), float(np.percentile(drawn, 100 - tail))
    return Cosine(value, min(low, value), max(high, value))


def split_half(samples: Floats, *, splits: int = SPLITS, seed: int = 0) -> float | None:
    """Return the mean cosine between the means of random halves: near 1 where the direction is certain.

    Halves are drawn at random: a fixed halving, such as by parity, may follow what decides the samples.

    Args:
        samples: A row a sample.
        splits: Halvings.
        seed: The same seed gives the same halvings.

    Returns:
        None where there are fewer than four samples, or no half has a direction.

    >>> split_half(np.tile([1.0, 2.0], (8, 1))), split_half(np.ones((3, 2)))
    (1.0, None)
    """
    if len(samples) < 4:
        return None
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(splits):
        order = rng.permutation(len(samples))
        half = len(samples) // 2
        value = cosine(samples[order[:half]].mean(0), samples[order[half:]].mean(0))
        if value is not None:
            found.append(value)
    return float(np.round(np.mean(found), 12)) if found else None


def reliability(half: float | None) -> float | None:
    """Return what a split-half cosine says of the whole sample, by Spearman and Brown: 2 h / (1 + h).

    >>> reliability(0.5), reliability(-0.2), reliability(None)
    (0.6666666666666666, 0.0, None)
    """
    if half is None:
        return None
    return max(0.0, 2 * half / (1 + half)) if half > -1 else 0.0
