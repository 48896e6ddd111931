from __future__ import annotations

import numpy as np
import pytest

from trace_assets.stats.ranking import expected_calibration_error


def test_calibrated_is_near_zero_and_overconfident_is_not() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(50_000)
    assert expected_calibration_error(p.tolist(), (rng.random(50_000) < p).tolist()) == pytest.approx(
        0, abs=0.01
    )
    assert expected_calibration_error([1.0] * 4, [True, False, False, False]) == 0.75


def test_bins_are_kept_apart() -> None:
    # Two bins, each wrong by .5 in opposite directions: they must not cancel.
    assert expected_calibration_error([0.45, 0.55], [True, False]) == pytest.approx(0.55)
    assert expected_calibration_error([0.51, 0.55], [True, False]) == pytest.approx(0.03)


def test_edges_and_errors() -> None:
    assert expected_calibration_error([], []) is None
    assert expected_calibration_error([0.0, 1.0], [False, True]) == 0
    with pytest.raises(ValueError, match="as many"):
        expected_calibration_error([0.5], [])
    with pytest.raises(ValueError, match=r"in \[0, 1\]"):
        expected_calibration_error([1.5], [True])
    with pytest.raises(ValueError, match=r"in \[0, 1\]"):
        expected_calibration_error([float("nan")], [True])
