"""Agreement: of labelling passes on the same items, and of directions that are estimated from samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trace_assets.stats.intervals import Estimate, resample

Codes = NDArray[np.int8] | NDArray[np.int64]
SPLITS = 50
"""Random halvings behind a split-half reliability."""


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


# Consensus of several labellers who err in their own ways: Dawid and Skene's model.


Floats = NDArray[np.float64]


@dataclass(frozen=True)
class DawidSkene:
    """What the labellers' votes say about the items and about the labellers.

    Attributes:
        posterior: Probability of each class for each item, shape `(items, classes)`; NaN for an item without
            a vote.
        confusion: How often a coder says `column` where `row` is true, shape `(coders, classes, classes)`.
        prevalence: Share of each class in each group, shape `(groups, classes)`.
        iterations: EM steps taken.
        converged: Whether the posterior had stopped moving.
    """

    posterior: Floats
    confusion: Floats
    prevalence: Floats
    iterations: int
    converged: bool


TRUST, DOUBT = 4.0, 0.5
"""Right votes that each coder is credited with in each class beforehand, and wrong ones in each other cell:
one with few votes is held for better than chance, and nobody for certain. A coder starts at 80 % right in
three classes; a few dozen votes outweigh that."""
TOLERANCE, MAX_ITERATIONS = 1e-4, 500
"""Largest change of a posterior at which EM has converged, and when it stops anyway."""


def dawid_skene(
    votes: NDArray[np.int8] | NDArray[np.int64],
    groups: NDArray[np.int64] | None = None,
    *,
    classes: int = 3,
) -> DawidSkene:
    """Fit the model by EM from the majority vote.

    Dawid and Skene (1979), "Maximum likelihood estimation of observer error-rates using the EM algorithm",
    JRSS C 28:20. Coders err independently of one another given the truth, each with a confusion matrix of
    its own that is the same in all groups, while each group has its own prevalence. Groups are what makes
    two coders enough: with one group their error rates cannot be told from the prevalence, with several that
    differ they can (Hui and Walter 1980, "Estimating the error rates of diagnostic tests", Biometrics
    36:167). Items with equal votes are handled together, so the cost does not grow with their number.

    Args:
        votes: Codes 0..classes-1, negative where a coder says nothing, shape `(items, coders)`.
        groups: Each item's group, counted from 0, shape `(items,)`; one group unless given.
        classes: Number of classes.

    Returns:
        The fit. A coder who gave no vote has an even confusion matrix.

    >>> three = np.array([[0, 0, 0]] * 20 + [[1, 1, 1]] * 20 + [[0, 0, 1]] * 4)
    >>> fit = dawid_skene(three, classes=2)
    >>> fit.posterior.argmax(axis=1)[-1], fit.converged
    (np.int64(0), True)
    """
    items, coders = votes.shape
    place = np.zeros(items, dtype=np.int64) if groups is None else groups.astype(np.int64)
    n_groups = int(place.max(initial=-1)) + 1
    pattern = place
    for column in votes.T.astype(np.int64):
        pattern = np.unique(pattern * (classes + 1) + column + 1, return_inverse=True)[1]
    _, first, pattern, times = np.unique(pattern, return_index=True, return_inverse=True, return_counts=True)
    pattern_group, pattern_votes = place[first], votes[first]
    said = (pattern_votes[:, :, None] == np.arange(classes)).astype(np.float64)  # pattern, coder, class
    voted = said.sum(axis=(1, 2)) > 0
    weight = np.where(voted, times, 0).astype(np.float64)
    member = (pattern_group[:, None] == np.arange(n_groups)).astype(np.float64)

    posterior = said.sum(axis=1) / np.maximum(1.0, said.sum(axis=(1, 2)))[:, None]
    confusion, prevalence = np.zeros((coders, classes, classes)), np.zeros((n_groups, classes))
    step, converged = 0, False
    while step < MAX_ITERATIONS and not converged:
        step += 1
        expected = posterior * weight[:, None]
        prevalence = member.T @ expected + 1.0
        prevalence /= prevalence.sum(axis=1, keepdims=True)
        confusion = np.einsum("pt,pcs->cts", expected, said) + DOUBT + (TRUST - DOUBT) * np.eye(classes)
        confusion /= confusion.sum(axis=2, keepdims=True)
        log_p = np.log(prevalence)[pattern_group] + np.einsum("pcs,cts->pt", said, np.log(confusion))
        after = np.exp(log_p - log_p.max(axis=1, keepdims=True, initial=-np.inf))
        after /= after.sum(axis=1, keepdims=True)
        moved = np.abs(after - posterior)[voted].max(initial=0.0)
        posterior, converged = after, bool(moved < TOLERANCE)
    posterior = np.where(voted[:, None], posterior, np.nan)
    return DawidSkene(
        posterior=posterior[pattern],
        confusion=confusion,
        prevalence=prevalence,
        iterations=step,
        converged=converged,
    )


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
