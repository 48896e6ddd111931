from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_assets.stats.paired import compare, mcnemar, pass_hat_k, pass_rate


def test_mcnemar_known_values() -> None:
    assert mcnemar(0, 0) == 1.0 and mcnemar(5, 5) == 1.0
    assert mcnemar(2, 8) == pytest.approx(0.109375)  # R: binom.test(2, 10)$p.value
    assert mcnemar(0, 2000) < 1e-300
    with pytest.raises(ValueError, match="negative"):
        mcnemar(-1, 2)


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_symmetric(one: int, other: int) -> None:
    assert mcnemar(one, other) == mcnemar(other, one) <= 1


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_hat_k_counts_subsets(case: tuple[int, int, int]) -> None:
    n, c, k = case
    subsets = list(combinations([True] * c + [False] * (n - c), k))
    expected = sum(all(subset) for subset in subsets) / len(subsets)
    assert pass_hat_k(np.array([c]), np.array([n]), k) == pytest.approx(expected)


def test_pass_hat_k_needs_k_trials() -> None:
    assert pass_hat_k(np.array([2, 3]), np.array([3, 3]), 4) is None
    assert pass_hat_k(np.array([2, 4]), np.array([3, 4]), 4) == 1.0
    with pytest.raises(ValueError, match="at least 1"):
        pass_hat_k(np.array([1]), np.array([1]), 0)


def test_each_task_weighs_the_same() -> None:
    assert pass_rate(np.array([1, 0]), np.array([1, 9])).value == 0.5
    assert pass_rate(np.array([0]), np.array([0])).value is None


def test_intervals_of_the_difference_cover() -> None:
    rng, inside, studies = np.random.default_rng(0), 0, 300
    for study in range(studies):
        hard = rng.beta(1, 1, 100)
        base = rng.binomial(4, hard)
        arm = rng.binomial(4, np.where(hard < 0.5, hard + 0.2, hard))  # truth: +0.10
        four = np.full(100, 4)
        delta = compare(arm, four, base, four, resamples=300, seed=study).delta
        assert delta.low is not None and delta.high is not None
        inside += delta.low <= 0.1 <= delta.high
    assert 0.91 <= inside / studies <= 0.985


def test_equal_arms_differ_by_nothing() -> None:
    passed, four = np.arange(40) % 5, np.full(40, 4)
    delta = compare(passed, four, passed, four).delta
    assert (
        delta.value == 0
        and delta.low == pytest.approx(0, abs=1e-6)
        and delta.high == pytest.approx(0, abs=1e-6)
    )
