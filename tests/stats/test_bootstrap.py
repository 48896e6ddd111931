from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.quick import examples
from trace_assets.stats.intervals import (
    difference,
    distinct_rows,
    ratio,
    resample,
    resample_each,
    student_t,
    wilson,
)


def rate(passed: np.ndarray, tried: np.ndarray, resamples: int = 2000):  # type: ignore[no-untyped-def]
    sums = resample(np.stack([passed, tried], axis=1), resamples, 0)
    return ratio(passed.astype(float), tried.astype(float), sums[:, 0], sums[:, 1])


def test_resample_draws_tasks_whole() -> None:
    counts = np.array([[3, 1], [0, 1], [3, 1]])
    sums = resample(counts, 500, 1)
    assert set(np.unique(sums[:, 0] % 3)) == {0.0}
    assert (sums[:, 1] == 3).all()
    assert sums[:, 0].mean() == pytest.approx(6, abs=0.3)
    assert sums[:, 0].var() == pytest.approx(6, rel=0.2)  # 3 draws of a variable with variance 2


def test_resample_is_the_same_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.arange(20).reshape(10, 2)
    whole = resample(counts, 50, 3)
    monkeypatch.setattr("trace_assets.stats.intervals._BLOCK", 70)
    assert resample(counts, 50, 3).shape == whole.shape
    np.testing.assert_array_equal(resample(counts, 50, 3), whole)


def test_equal_tasks_are_drawn_together_and_have_the_same_distribution() -> None:
    rng = np.random.default_rng(2)
    counts = rng.integers(0, 3, (300, 2))  # nine distinct rows: multinomial
    together = resample(counts, 4000, 0)
    # A column without meaning makes all rows distinct: tasks one by one.
    singly = resample(np.column_stack([counts, np.arange(300)]), 4000, 0)[:, :2]
    assert together.mean(axis=0) == pytest.approx(singly.mean(axis=0), abs=4 * 14 / 4000**0.5)
    np.testing.assert_allclose(np.cov(together.T), np.cov(singly.T), atol=0.1 * 300 * 0.67)
    np.testing.assert_allclose(together.var(axis=0), 300 * counts.var(axis=0), rtol=0.1)


def test_tables_are_drawn_without_regard_to_each_other() -> None:
    rng = np.random.default_rng(3)
    few, many = rng.integers(0, 2, (200, 1, 2)).astype(float), rng.random((200, 1, 2))
    both = resample_each(np.concatenate([few, many], axis=1), 100, 5)
    np.testing.assert_array_equal(both[:, 0], resample(few[:, 0], 100, 5))
    np.testing.assert_array_equal(both[:, 1], resample(many[:, 0], 100, 5))


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.lists(st.integers(-2, 5_000_000), min_size=3, max_size=3), max_size=20))
def test_distinct_rows_put_together_are_the_rows(rows: list[list[int]]) -> None:
    counts = np.array(rows, dtype=np.int64).reshape(-1, 3)
    distinct, times = distinct_rows(counts)
    assert sorted(np.repeat(distinct, times, axis=0).tolist()) == sorted(counts.tolist())
    assert len({tuple(row) for row in distinct.tolist()}) == len(distinct)


def test_no_tasks_is_zeros() -> None:
    assert (resample(np.zeros((0, 2)), 10, 0) == 0).all()


def test_one_trial_a_task_agrees_with_wilson() -> None:
    passed, tried = (np.arange(200) < 60).astype(np.int64), np.ones(200, np.int64)
    low, high = wilson(60, 200)
    estimate = rate(passed, tried).estimate()
    assert (estimate.low, estimate.high) == (pytest.approx(low, abs=0.01), pytest.approx(high, abs=0.01))


def test_repeating_every_trial_adds_no_certainty() -> None:
    passed, tried = (np.arange(80) < 30).astype(np.int64), np.ones(80, np.int64)
    once, often = rate(passed, tried).estimate(), rate(8 * passed, 8 * tried).estimate()
    assert (often.value, often.low, often.high) == (
        once.value,
        pytest.approx(once.low),
        pytest.approx(once.high),
    )


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=30))
def test_bounds_hold_the_rate(rows: list[tuple[int, int]]) -> None:
    passed = np.array([min(pair) for pair in rows])
    tried = np.array([max(pair) for pair in rows])
    estimate = rate(passed, tried, 200).estimate()
    if tried.sum() == 0:
        assert estimate.value is None and estimate.low is None
    elif (tried > 0).sum() < 2:
        assert estimate.value is not None and estimate.low is None
    else:
        assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
        assert estimate.high > estimate.low


def test_difference_uses_the_pairing() -> None:
    rng = np.random.default_rng(0)
    hard = rng.random(100)
    first, second = (
        (rng.random((100, 4)) < hard[:, None]).sum(1),
        (rng.random((100, 4)) < hard[:, None]).sum(1),
    )
    four = np.full(100, 4)
    sums = resample(np.stack([first, second, four], axis=1), 2000, 0)
    one, other = (
        ratio(x.astype(float), four.astype(float), sums[:, i], sums[:, 2])
        for i, x in enumerate((first, second))
    )
    paired = difference(one, other)
    elsewhere = resample(np.stack([second, four], axis=1), 2000, 9)
    apart = difference(one, ratio(second.astype(float), four.astype(float), elsewhere[:, 0], elsewhere[:, 1]))
    assert paired.value == apart.value
    assert None not in (paired.low, paired.high, apart.low, apart.high)
    assert paired.high - paired.low < 0.8 * (apart.high - apart.low)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("degrees", "quantile"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (5, 2.571), (10, 2.228), (30, 2.042), (200, 1.972)],
)
def test_student_t_against_tables(degrees: int, quantile: float) -> None:
    assert student_t(0.95, degrees) == pytest.approx(quantile, rel=2e-4)
