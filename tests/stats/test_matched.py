from __future__ import annotations

import numpy as np
import pytest

from trace_assets.stats.paired import matched_gap


def test_one_failed_and_one_passed_run_a_task_are_pairs() -> None:
    # 20 tasks: in 8 only the failed run lacks it, in 2 only the passed one, in the others both or neither.
    failed = np.array([1] * 8 + [0] * 2 + [1] * 5 + [0] * 5)
    passed = np.array([0] * 8 + [1] * 2 + [1] * 5 + [0] * 5)
    one = np.ones(20, dtype=np.int64)
    found = matched_gap(failed, one, passed, one)
    assert (found.gap.value, found.pairs, found.tasks) == (pytest.approx(0.3), 20, 20)
    # The paired Wald interval is 0.3 +- 1.96 sqrt((10 / 20 - 0.09) / 20).
    assert found.gap.low == pytest.approx(0.3 - 0.28, abs=0.08)
    assert found.gap.high == pytest.approx(0.3 + 0.28, abs=0.08)
    varying = matched_gap(failed, one, passed, one, varying=True)
    assert (varying.gap.value, varying.tasks) == (pytest.approx(0.6), 10)


def test_tasks_with_more_runs_weigh_as_mantel_and_haenszel_have_it() -> None:
    found = matched_gap(np.array([2, 0]), np.array([2, 1]), np.array([0, 1]), np.array([2, 1]))
    weights = np.array([2 * 2 / 4, 1 * 1 / 2])
    assert found.gap.value == pytest.approx((weights @ [1.0, -1.0]) / weights.sum())
    assert found.pairs == 3


def test_tasks_that_ended_one_way_say_nothing() -> None:
    two, no = np.array([2, 2]), np.array([0, 0])
    assert matched_gap(two, two, no, no).gap.value is None
    alone = matched_gap(np.array([1, 2]), np.array([1, 2]), np.array([0, 0]), np.array([1, 0]))
    assert (alone.gap.value, alone.gap.low, alone.tasks) == (1.0, None, 1)
