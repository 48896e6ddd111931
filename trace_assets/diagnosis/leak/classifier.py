"""A small logistic regression whose scores are all out of fold: as strong a reader as the meter needs."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FOLDS = 5
PENALTY = 0.05
"""L2 penalty on standardized features and the mean log-loss."""


def fit_logistic(features: Floats, positive: NDArray[np.bool_], penalty: float = PENALTY) -> Floats:
    """Fit a logistic regression by iteratively reweighted least squares.

    Args:
        features: Shape `(n, d)`, standardized.
        positive: Shape `(n,)`, both values among them.
        penalty: L2, on all weights but the intercept.

    Returns:
        Weights, shape `(d + 1,)`, the intercept last.

    >>> weights = fit_logistic(np.array([[-1.0], [1.0]] * 8), np.array([False, True] * 8))
    >>> bool(weights[0] > 0.5), bool(abs(weights[1]) < 1e-6)
    (True, True)
    """
    x = np.hstack([features, np.ones((len(features), 1))])
    ridge = np.full(x.shape[1], penalty * len(x))
    ridge[-1] = 1e-9
    y, weights = positive.astype(np.float64), np.zeros(x.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        gradient = x.T @ (p - y) + ridge * weights
        curvature = np.maximum(p * (1 - p), 1e-6)
        step = np.linalg.solve((x * curvature[:, None]).T @ x + np.diag(ridge + 1e-9), gradient)
        weights = weights - step
        if float(np.abs(step).max()) < 1e-6:
            break
    return weights


def out_of_fold(
    features: Floats, positive: NDArray[np.bool_], groups: Sequence[Hashable], seed: int = 0
) -> tuple[Floats, NDArray[np.int64]]:
    """Score every row with a model that saw no row of its group.

    Args:
        features: Shape `(n, d)`.
        positive: Shape `(n,)`.
        groups: Rows of one group, trials of a task for instance, share a fold.
        seed: Deals the groups.

    Returns:
        Scores and folds, both of shape `(n,)`. Scores of different folds are not comparable. A fold whose
        complement is one-sided scores 0 throughout.
    """
    names = sorted({str(one) for one in groups})
    order = np.random.default_rng(seed).permutation(len(names))
    dealt = {names[place]: number % FOLDS for number, place in enumerate(order)}
    fold = np.array([dealt[str(one)] for one in groups], dtype=np.int64)
    scores = np.zeros(len(positive))
    for number in range(FOLDS):
        held, rest = fold == number, fold != number
        if not held.any() or positive[rest].all() or not positive[rest].any():
            continue
        mean, scale = features[rest].mean(axis=0), features[rest].std(axis=0)
        varies = scale > 1e-9
        if not varies.any():
            continue
        seen = (features[:, varies] - mean[varies]) / scale[varies]
        weights = fit_logistic(seen[rest], positive[rest])
        scores[held] = seen[held] @ weights[:-1] + weights[-1]
    return scores, fold
