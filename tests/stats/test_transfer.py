"""Gains and correlations of a pilot: intervals that cover, and no certainty from nothing."""

from __future__ import annotations

import numpy as np
import pytest

from trace_assets.stats.paired import correlation, gain


def test_a_gain_is_covered_by_its_interval() -> None:
    covered = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        before, after = rng.random(48) < 0.3, rng.random(48) < 0.45
        found = gain(after.astype(float) - before.astype(float), resamples=500)
        covered += found.low <= 0.15 <= found.high
    assert covered >= 90


def test_no_change_is_no_certainty() -> None:
    found = gain(np.zeros(20))
    assert (found.value, found.p) == (0.0, 1.0)
    assert found.low == pytest.approx(-0.15) and found.high == pytest.approx(0.15)


def test_one_that_changed_among_many_has_a_wide_interval() -> None:
    found = gain(np.array([-1.0] + [0.0] * 29))
    assert found.value == pytest.approx(-1 / 30) and found.p == 1.0
    assert found.low == pytest.approx(-1 / 30 - 0.1) and found.high == pytest.approx(-1 / 30 + 0.1)
    five = gain(np.array([-1.0] * 5 + [0.0] * 25))
    assert five.high < -1 / 30, "from five on the bootstrap is believed"


def test_nothing_to_pair_is_an_error() -> None:
    with pytest.raises(ValueError, match="no unit"):
        gain(np.array([]))


def checkpoints(rates: list[float], units: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.random((len(rates), units)) < np.array(rates)[:, None]).astype(float)


def test_measurements_that_rise_together_correlate() -> None:
    found = correlation(checkpoints([0.2, 0.4, 0.6, 0.8], 64, 0), checkpoints([0.3, 0.5, 0.6, 0.9], 64, 1))
    assert found.value is not None and found.low is not None
    assert found.value > 0.9 and found.low > 0.5


def test_opposite_measurements_correlate_negatively() -> None:
    found = correlation(checkpoints([0.2, 0.5, 0.8], 64, 0), checkpoints([0.8, 0.5, 0.2], 64, 1))
    assert found.high is not None and found.high < 0


def test_a_side_that_stands_still_has_a_wide_interval() -> None:
    found = correlation(checkpoints([0.2, 0.5, 0.8], 64, 0), checkpoints([0.4, 0.4, 0.4], 64, 1))
    assert found.low is not None and found.high is not None
    assert found.high - found.low > 1.0


@pytest.mark.parametrize("target", [np.ones((4, 8)), np.zeros((2, 8))])
def test_nothing_is_said_without_movement_or_points(target: np.ndarray) -> None:
    found = correlation(np.arange(len(target) * 8.0).reshape(len(target), 8) / 32, target)
    assert found.value is None
