"""Multinomial logistic regression with a penalty and a temperature, both chosen on held-out folds."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

PENALTIES = (1e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0)
"""L2 penalties that are tried, on standardized features and the mean log-loss."""


@dataclass(frozen=True)
class Logistic:
    """A fitted layer.

    Attributes:
        mean: Feature means, shape (d,).
        scale: Feature standard deviations, shape (d,); 1 for constant features.
        weights: Shape (d, k).
        bias: Shape (k,).
        temperature: Logits are divided by it.
        penalty: The L2 penalty that was chosen.
    """

    mean: Array
    scale: Array
    weights: Array
    bias: Array
    temperature: float
    penalty: float

    def probabilities(self, features: npt.NDArray[np.floating]) -> Array:
        """Return class probabilities, shape (n, k)."""
        x = (np.asarray(features, dtype=np.float64) - self.mean) / self.scale
        return softmax((x @ self.weights + self.bias) / self.temperature)


def softmax(logits: Array) -> Array:
    """Return row-wise softmax.

    >>> softmax(np.array([[0.0, 0.0]])).tolist()
    [[0.5, 0.5]]
    """
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    total: Array = shifted / shifted.sum(axis=1, keepdims=True)
    return total


def log_loss(probabilities: Array, targets: Array) -> float:
    """Return the mean cross-entropy of target shares and probabilities, both of shape (n, k).

    >>> round(log_loss(np.array([[0.5, 0.5]]), np.array([[0.0, 1.0]])), 3)
    0.693
    """
    return float(-(targets * np.log(np.maximum(probabilities, 1e-12))).sum(axis=1).mean())


def folds(groups: Sequence[Hashable], y: Sequence[int], k: int, seed: int) -> npt.NDArray[np.int64]:
    """Deal rows into folds so that equal groups stay together and classes are spread.

    Args:
        groups: Rows of one group never part, such as tasks with the same text.
        y: Class of each row.
        k: Number of folds.
        seed: Shuffles the groups.

    Returns:
        Fold of each row, in 0..k-1.

    >>> folds(["a", "a", "b", "c"], [0, 0, 0, 1], 2, seed=0).tolist()[:2] in ([0, 0], [1, 1])
    True
    """
    class_of = dict(zip(groups, y, strict=True))
    order = np.random.default_rng(seed).permutation(len(class_of))
    names = list(class_of)
    dealt = sorted((names[index] for index in order), key=lambda name: class_of[name])
    place = {name: number % k for number, name in enumerate(dealt)}
    return np.array([place[group] for group in groups], dtype=np.int64)


def fit(features: npt.NDArray[np.floating], targets: Array, penalty: float) -> Logistic:
    """Fit one layer by L-BFGS: mean log-loss + penalty / 2 x squared norm of weights and bias.

    The bias is penalized a hundredth as much, which keeps it finite for a class that a fold lacks.

    Args:
        features: Shape (n, d), n >= 1.
        targets: Share of each class in each row, shape (n, k), rows sum to 1.
        penalty: L2 penalty, above 0.
    """
    import torch

    x = np.asarray(features, dtype=np.float64)
    mean, scale = x.mean(axis=0), x.std(axis=0)
    scale = np.where(scale < 1e-8, 1.0, scale)
    inputs, wanted = torch.from_numpy((x - mean) / scale), torch.from_numpy(targets)
    k = targets.shape[1]
    weights = torch.zeros((x.shape[1], k), dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(k, dtype=torch.float64, requires_grad=True)
    solver = torch.optim.LBFGS(
        [weights, bias], max_iter=200, tolerance_grad=1e-6, line_search_fn="strong_wolfe"
    )

    def closure() -> torch.Tensor:
        solver.zero_grad()
        loss = torch.nn.functional.cross_entropy(inputs @ weights + bias, wanted)
        loss = loss + penalty / 2 * (weights.square().sum() + bias.square().sum() / 100)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    solver.step(closure)  # type: ignore[no-untyped-call]
    return Logistic(mean, scale, weights.detach().numpy(), bias.detach().numpy(), 1.0, penalty)


def best_temperature(logits: Array, targets: Array) -> float:
    """Return the temperature in [1/2, 8] with the least log-loss (Guo et al. 2017, arXiv 1706.04599).

    Where every held-out row was right the loss falls with the temperature for ever: 1/2 bounds how far a
    router is sharpened on the strength of a few hundred rows.

    >>> best_temperature(np.array([[9.0, 0.0], [9.0, 0.0]]), np.eye(2))
    8.0
    """
    grid = 2.0 ** np.linspace(-1, 3, 81)
    losses = [log_loss(softmax(logits / temperature), targets) for temperature in grid]
    return float(grid[int(np.argmin(losses))])


def fit_calibrated(
    features: npt.NDArray[np.floating],
    targets: Array,
    groups: Sequence[Hashable],
    seed: int,
    n_folds: int = 5,
) -> tuple[Logistic, Array | None]:
    """Choose penalty and temperature on held-out folds, then fit on everything.

    Args:
        features: Shape (n, d).
        targets: Share of each class in each row, shape (n, k).
        groups: Rows of one group share a fold.
        seed: Deals the folds.
        n_folds: At most this many folds; fewer with fewer groups.

    Returns:
        The layer, and the calibrated held-out probabilities, shape (n, k), of rows that their fold's layer
        never saw (the temperature, one number, did see them). None with fewer than two groups: then nothing
        can be held out, the middle penalty is taken and the temperature is 1.
    """
    parts = min(n_folds, len(set(groups)))
    if parts < 2:
        return fit(features, targets, PENALTIES[len(PENALTIES) // 2]), None
    fold = folds(groups, targets.argmax(axis=1).tolist(), parts, seed)
    best: tuple[float, float, Array] | None = None
    for penalty in PENALTIES:
        logits = np.zeros(targets.shape)
        for part in range(parts):
            out = fold == part
            layer = fit(features[~out], targets[~out], penalty)
            logits[out] = np.log(np.maximum(layer.probabilities(features[out]), 1e-12))
        loss = log_loss(softmax(logits), targets)
        if best is None or loss < best[0]:
            best = (loss, penalty, logits)
    assert best is not None
    _, penalty, logits = best
    temperature = best_temperature(logits, targets)
    layer = fit(features, targets, penalty)
    calibrated = Logistic(layer.mean, layer.scale, layer.weights, layer.bias, temperature, penalty)
    return calibrated, softmax(logits / temperature)
