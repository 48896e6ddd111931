from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

from trace_assets.routing.logistic import best_temperature, fit, fit_calibrated, folds, log_loss, softmax


def blobs(n: int, k: int = 3, noise: float = 0.5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    return np.eye(k, 6)[y] * 2 + rng.normal(size=(n, 6)) * noise, y


def one_hot(y: np.ndarray, k: int) -> np.ndarray:
    return np.eye(k)[y]


def test_the_fit_is_the_minimum_of_its_own_loss() -> None:
    x, y = blobs(60)
    layer = fit(x, one_hot(y, 3), 0.1)
    inputs = (x - layer.mean) / layer.scale

    def loss(weights: np.ndarray, bias: np.ndarray) -> float:
        fitted = log_loss(softmax(inputs @ weights + bias), one_hot(y, 3))
        return fitted + 0.05 * float((weights**2).sum() + (bias**2).sum() / 100)

    rng = np.random.default_rng(1)
    least = loss(layer.weights, layer.bias)
    for _ in range(20):
        step = rng.normal(size=layer.weights.shape) * 1e-2
        assert loss(layer.weights + step, layer.bias) > least
        assert loss(layer.weights, layer.bias + rng.normal(size=3) * 1e-1) > least


def test_held_out_probabilities_are_of_rows_the_layer_did_not_see() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(80, 60)), rng.integers(0, 2, 80)
    layer, held_out = fit_calibrated(x, one_hot(y, 2), range(80), seed=0)
    assert held_out is not None
    seen = (layer.probabilities(x).argmax(1) == y).mean()
    assert (held_out.argmax(1) == y).mean() < 0.7 <= seen
    # Nothing to be learned: calibration says so.
    assert held_out.max(1).mean() < 0.7


def test_separable_classes_are_told_apart_on_fresh_rows() -> None:
    x, y = blobs(90)
    layer, held_out = fit_calibrated(x, one_hot(y, 3), range(90), seed=0)
    fresh, truth = blobs(300, seed=9)
    assert (layer.probabilities(fresh).argmax(1) == truth).mean() > 0.9
    assert held_out is not None and (held_out.argmax(1) == y).mean() > 0.9


def test_a_class_with_two_rows_survives_the_folds() -> None:
    x, y = blobs(40, k=2)
    y = np.concatenate([y, [2, 2]])
    x = np.concatenate([x, np.eye(6)[[4, 4]] * 5])
    layer, held_out = fit_calibrated(x, one_hot(y, 3), range(42), seed=0)
    assert held_out is not None and np.isfinite(held_out).all()
    assert layer.probabilities(x[-2:]).argmax(1).tolist() == [2, 2]


def test_shares_are_learned_as_probabilities() -> None:
    x, y = blobs(200, k=2, noise=0.1)
    targets = np.array([[0.7, 0.3], [0.0, 1.0]])[y]
    layer, held_out = fit_calibrated(x, targets, range(200), seed=0)
    np.testing.assert_allclose(layer.probabilities(x)[y == 0].mean(0), [0.7, 0.3], atol=0.03)
    assert held_out is not None and held_out[y == 1, 0].mean() < 0.05


def test_one_group_cannot_be_held_out() -> None:
    x, y = blobs(6, k=2)
    layer, held_out = fit_calibrated(x, one_hot(y, 2), ["same"] * 6, seed=0)
    assert held_out is None and layer.temperature == 1.0


def test_the_temperature_undoes_overconfidence() -> None:
    rng = np.random.default_rng(0)
    true = rng.normal(size=(4000, 3))
    y = np.array([rng.choice(3, p=row) for row in softmax(true)])
    assert best_temperature(true * 4, one_hot(y, 3)) == pytest.approx(4, rel=0.15)


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 2)), min_size=2, max_size=60),
    st.integers(2, 5),
    st.integers(0, 99),
)
def test_folds_keep_groups_together_and_leave_none_empty(
    rows: list[tuple[int, int]], k: int, seed: int
) -> None:
    groups = [group for group, _ in rows]
    k = min(k, len(set(groups)))
    placed = folds(groups, [y for _, y in rows], k, seed)
    assert len({(group, fold) for group, fold in zip(groups, placed, strict=True)}) == len(set(groups))
    assert set(placed.tolist()) == set(range(k))
