"""Rates, effective sizes and differences against the formulas written out, resample by resample."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trace_assets.stats import intervals
from trace_assets.stats.intervals import (
    Estimate,
    Ratio,
    difference,
    distinct_rows,
    ratio,
    resample,
    score_interval,
    student_t,
)

Z = 1.959963984540054


def floats(*values: float) -> np.ndarray:
    return np.array(values, dtype=float)


def test_the_effective_number_by_hand() -> None:
    """Of five resamples one is empty: it has no rate, and counts for nothing."""
    passed, tried = floats(1, 0, 2, 1), floats(2, 2, 2, 0)
    sums, totals = floats(1, 3, 2, 0, 4), floats(2, 4, 5, 0, 8)
    found = ratio(passed, tried, sums, totals, trials=100)
    rates = floats(0.5, 0.75, 0.4, 0.5)
    variance = rates.var() * 3 / 2  # three tasks were tried
    value = 4 / 6
    expected = value * (1 - value) / variance * (Z / student_t(0.95, 2)) ** 2
    assert found.value == pytest.approx(value)
    assert found.effective == pytest.approx(expected)
    np.testing.assert_allclose(found.replicates[[0, 1, 2, 4]], rates)
    assert math.isnan(found.replicates[3])
    narrow = ratio(passed, tried, sums, totals, trials=100, confidence=0.5)
    z = 0.6744897501960817
    assert narrow.effective == pytest.approx(value * (1 - value) / variance * (z / student_t(0.5, 2)) ** 2)


def test_it_is_never_more_than_the_trials_or_what_is_given_as_them() -> None:
    passed, tried = floats(1, 1, 0, 0), floats(1, 1, 1, 1)
    steady, totals = floats(2, 2.001), floats(4, 4)
    assert ratio(passed, tried, steady, totals).effective == 4
    assert ratio(passed, tried, steady, totals, trials=2.5).effective == 2.5


def test_without_variance_each_task_counts_as_one_trial() -> None:
    tried = floats(5, 5, 5, 0)
    found = ratio(floats(5, 5, 5, 0), tried, floats(10, 5), floats(10, 5))
    assert found.value == 1.0
    assert found.effective == pytest.approx(3 * (Z / student_t(0.95, 2)) ** 2)


def test_one_task_has_no_interval_and_none_no_rate() -> None:
    one = ratio(floats(1, 0), floats(2, 0), floats(1), floats(2))
    assert (one.value, one.effective) == (0.5, 0.0)
    assert one.estimate() == Estimate(0.5, None, None)
    none = ratio(floats(0, 0), floats(0, 0), floats(0), floats(0))
    assert math.isnan(none.value) and none.effective == 0.0
    assert none.estimate() == Estimate(None, None, None)
    two = ratio(floats(1, 0), floats(1, 1), floats(1, 0), floats(2, 2))
    assert two.effective > 0


def test_an_estimate_is_the_score_interval_at_its_confidence() -> None:
    found = Ratio(0.3, 20.0, floats(0.3))
    for confidence in (0.5, 0.95):
        low, high = score_interval(0.3, 20.0, confidence)
        assert found.estimate(confidence) == Estimate(0.3, low, high)
    assert found.estimate() == found.estimate(0.95)


def mover(first: Ratio, second: Ratio, r: float, confidence: float = 0.95) -> tuple[float, float]:
    low_1, high_1 = score_interval(first.value, first.effective, confidence)
    low_2, high_2 = score_interval(second.value, second.effective, confidence)
    value = first.value - second.value
    a, b = first.value - low_1, high_2 - second.value
    c, d = high_1 - first.value, second.value - low_2
    return (
        value - math.sqrt(a * a - 2 * r * a * b + b * b),
        value + math.sqrt(c * c - 2 * r * c * d + d * d),
    )


def test_a_difference_by_hand() -> None:
    ups, downs = floats(0.5, 0.6, 0.8, 0.7), floats(0.2, 0.3, 0.1, 0.4)
    first, second = Ratio(0.65, 30.0, ups), Ratio(0.25, 20.0, downs)
    for confidence in (0.8, 0.95):
        low, high = mover(first, second, float(np.corrcoef(ups, downs)[0, 1]), confidence)
        found = difference(first, second, confidence)
        assert found.value == pytest.approx(0.4)
        assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert difference(first, second) == difference(first, second, 0.95)
    # Replicates that one of the two lacks are left out of the correlation.
    holes = (
        Ratio(0.65, 30.0, floats(0.5, 0.6, math.nan, 0.7)),
        Ratio(0.25, 20.0, floats(0.2, 0.3, 0.1, math.inf)),
    )
    low, _ = mover(first, second, 1.0)
    assert difference(*holes).low == pytest.approx(low)
    # Where one does not vary, or there is one replicate, there is none.
    for other in (floats(0.2, 0.2, 0.2, 0.2), floats(0.2, math.nan, math.nan, math.nan)):
        low, high = mover(first, Ratio(0.25, 20.0, other), 0.0)
        found = difference(first, Ratio(0.25, 20.0, other))
        assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))


def test_a_difference_stays_within_one_and_needs_both_sides() -> None:
    sure, never = Ratio(1.0, 2.0, floats(1, 1)), Ratio(0.0, 2.0, floats(0, 0))
    assert difference(sure, never).high == 1.0 and difference(never, sure).low == -1.0
    alone, undefined = Ratio(0.5, 0.0, floats(0.5)), Ratio(math.nan, 0.0, floats(math.nan))
    assert difference(sure, alone) == Estimate(0.5, None, None)
    assert difference(alone, sure) == Estimate(-0.5, None, None)
    assert difference(sure, undefined) == difference(undefined, sure) == Estimate(None, None, None)


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.9, 0.95, 0.99])
def test_student_t_at_other_confidences(confidence: float) -> None:
    """By t's own distribution function at it, by quadrature."""
    for degrees in (1, 2, 4, 5, 10, 40):
        t = student_t(confidence, degrees)
        x = np.linspace(-t, t, 20_001)
        scale = math.gamma((degrees + 1) / 2) / (math.sqrt(degrees * math.pi) * math.gamma(degrees / 2))
        inside = np.trapezoid(scale * (1 + x * x / degrees) ** (-(degrees + 1) / 2), x)
        assert inside == pytest.approx(confidence, abs=1e-6)


@pytest.mark.parametrize("dense", [1, 2, 1 << 22])
def test_distinct_rows_whatever_way_they_are_counted(monkeypatch: pytest.MonkeyPatch, dense: int) -> None:
    monkeypatch.setattr(intervals, "_DENSE", dense)
    counts = np.array([[2, 1], [0, 3], [2, 1], [0, 1], [2, 3], [0, 3], [0, 3]])
    for given in (counts, counts.astype(float), counts - 5):
        rows, times = distinct_rows(given)
        found = {tuple(row): int(n) for row, n in zip(rows.tolist(), times.tolist(), strict=True)}
        whole: dict[tuple[float, ...], int] = {}
        for row in given.tolist():
            whole[tuple(map(float, row))] = whole.get(tuple(map(float, row)), 0) + 1
        assert found == whole and rows.dtype == np.float64


def test_keys_that_outgrow_their_bits_are_numbered_anew() -> None:
    rng = np.random.default_rng(0)
    counts = np.repeat(rng.integers(0, 4_000_000, (50, 6)), 3, axis=0)
    rows, times = distinct_rows(counts)
    assert len(rows) == 50 and set(times.tolist()) == {3}
    assert {tuple(row) for row in rows.tolist()} == {tuple(map(float, row)) for row in counts.tolist()}


@pytest.mark.parametrize("block", [1, 7, 4_000_000])
def test_rows_that_repeat_are_drawn_together_in_any_blocks(
    monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    counts = np.repeat(np.array([[1, 2], [0, 2], [3, 1]]), 40, axis=0)
    whole = resample(counts, 30, 4)
    monkeypatch.setattr(intervals, "_BLOCK", block)
    np.testing.assert_array_equal(resample(counts, 30, 4), whole)
    rng = np.random.default_rng(4)
    weights = rng.multinomial(120, [1 / 3] * 3, size=30)
    rows, _ = distinct_rows(counts)
    np.testing.assert_array_equal(whole, weights @ rows)
    assert not np.array_equal(whole, resample(counts, 30, 5))
