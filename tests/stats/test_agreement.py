from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_assets.stats.agreement import alpha_estimate, krippendorff_alpha

_ = -1
KRIPPENDORFF_2011 = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, _, _, _],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, _, 3],
        [_, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, _],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, _],
    ]
).T
"""The example of the paper: nominal alpha .743."""


def test_the_published_example() -> None:
    assert krippendorff_alpha(KRIPPENDORFF_2011) == pytest.approx(0.743, abs=5e-4)


def test_full_agreement_chance_and_worse() -> None:
    assert krippendorff_alpha(np.array([[0, 0], [2, 2], [1, 1]])) == 1.0
    rng = np.random.default_rng(0)
    assert krippendorff_alpha(rng.integers(0, 3, (5000, 2))) == pytest.approx(0, abs=0.03)
    assert (krippendorff_alpha(np.array([[0, 1], [1, 0]])) or 0) < 0


@pytest.mark.parametrize(
    "codes", [np.zeros((0, 2), int), np.full((3, 2), -1), np.array([[0, -1], [-1, 1]]), np.ones((4, 2), int)]
)
def test_undefined(codes: np.ndarray) -> None:
    assert krippendorff_alpha(codes) is None


@given(st.lists(st.lists(st.integers(-1, 2), min_size=3, max_size=3), min_size=2, max_size=20), st.randoms())
def test_order_and_names_do_not_matter(rows: list[list[int]], random) -> None:  # type: ignore[no-untyped-def]
    alpha = krippendorff_alpha(np.array(rows))
    for row in rows:
        random.shuffle(row)
    random.shuffle(rows)
    renamed = np.array([[{-1: -1, 0: 2, 1: 0, 2: 1}[code] for code in row] for row in rows])
    again = krippendorff_alpha(renamed)
    assert (alpha is None) == (again is None)
    if alpha is not None:
        assert again == pytest.approx(alpha) and alpha <= 1


def test_the_interval_of_alpha_holds_it_and_draws_whole_tasks() -> None:
    rng = np.random.default_rng(0)
    first = rng.integers(0, 3, 200)
    second = np.where(rng.random(200) < 0.2, rng.integers(0, 3, 200), first)
    codes = np.stack([first, second], axis=1)
    alone = alpha_estimate(codes)
    assert alone.low is not None and alone.value is not None and alone.high is not None
    assert alone.low < alone.value < alone.high
    repeated = alpha_estimate(np.repeat(codes, 5, axis=0), np.repeat(np.arange(200), 5))
    assert repeated.low is not None and repeated.high is not None
    assert repeated.high - repeated.low == pytest.approx(alone.high - alone.low, rel=0.15)


def test_alpha_of_one_task_has_no_interval() -> None:
    estimate = alpha_estimate(np.array([[0, 0], [1, 1], [0, 1]]), np.zeros(3, dtype=np.int64))
    assert estimate.value is not None and estimate.low is None


def test_the_interval_of_alpha_covers() -> None:
    rng = np.random.default_rng(1)
    true_alpha = krippendorff_alpha(_coded(rng, 400_000))
    assert true_alpha is not None
    held = 0
    for _ in range(300):
        estimate = alpha_estimate(_coded(rng, 120), resamples=400)
        assert estimate.low is not None and estimate.high is not None
        held += estimate.low <= true_alpha <= estimate.high
    assert 0.90 <= held / 300 <= 0.985  # 95 % plus or minus three standard errors, percentile at n = 120


def _coded(rng: np.random.Generator, n: int) -> np.ndarray:
    true = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    votes = np.stack([true, true], axis=1)
    wrong = rng.random(votes.shape) < 0.1
    return np.where(wrong, (votes + rng.integers(1, 3, votes.shape)) % 3, votes)
