from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_assets.stats.tests import hypergeometric_pmf, tail


@given(st.integers(0, 30), st.integers(0, 30), st.data())
def test_against_counting(good: int, bad: int, data: st.DataObject) -> None:
    draws = data.draw(st.integers(0, good + bad))
    pmf = hypergeometric_pmf(good, bad, draws)
    expected = [comb(good, k) * comb(bad, draws - k) for k in range(min(good, draws) + 1)]
    np.testing.assert_allclose(pmf, np.array(expected, dtype=float) / comb(good + bad, draws), atol=1e-12)
    assert pmf.sum() == pytest.approx(1)


def test_large_numbers() -> None:
    pmf = hypergeometric_pmf(50_000, 50_000, 1000)
    assert pmf.sum() == pytest.approx(1, rel=1e-8)
    assert pmf @ np.arange(1001) == pytest.approx(500, rel=1e-6)


@pytest.mark.parametrize("numbers", [(1, 1, 3), (-1, 2, 0)])
def test_impossible_draws_are_refused(numbers: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="cannot draw"):
        hypergeometric_pmf(*numbers)


def test_a_tail_is_never_zero_nor_above_one() -> None:
    assert tail(np.array([0.6, 0.4 + 1e-12]), 0) == 1.0
    assert 0 < tail(np.array([1.0, 0.0]), 1) < 1e-300
