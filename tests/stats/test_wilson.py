from __future__ import annotations

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_assets.stats.intervals import wilson


@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_interval_holds_the_rate_and_mirrors(case: tuple[int, int]) -> None:
    successes, n = case
    low, high = wilson(successes, n)
    assert 0 <= low <= successes / n <= high <= 1
    mirror_low, mirror_high = wilson(n - successes, n)
    assert low == pytest.approx(1 - mirror_high, abs=1e-12)
    assert high == pytest.approx(1 - mirror_low, abs=1e-12)
    assert high - low > 0


@given(st.integers(1, 300), st.floats(0.55, 0.98))
def test_more_confidence_is_wider(n: int, confidence: float) -> None:
    low, high = wilson(n // 2, n, confidence)
    wide_low, wide_high = wilson(n // 2, n, confidence + 0.01)
    assert wide_low <= low and high <= wide_high


def test_covers_on_average_what_it_says() -> None:
    n = 40
    coverages = []
    for percent in range(5, 100, 5):
        rate = percent / 100
        inside = 0.0
        for successes in range(n + 1):
            low, high = wilson(successes, n)
            if low <= rate <= high:
                inside += comb(n, successes) * rate**successes * (1 - rate) ** (n - successes)
        coverages.append(inside)
    assert 0.94 < sum(coverages) / len(coverages) < 0.97


@pytest.mark.parametrize(("successes", "n"), [(-1, 3), (4, 3), (0, -1)])
def test_impossible_counts_are_refused(successes: int, n: int) -> None:
    with pytest.raises(ValueError, match="successes must be"):
        wilson(successes, n)


def test_known_values() -> None:
    # R: prop.test(15, 20, correct = FALSE)$conf.int
    low, high = wilson(15, 20)
    assert (low, high) == (pytest.approx(0.5313, abs=2e-4), pytest.approx(0.8881, abs=2e-4))
