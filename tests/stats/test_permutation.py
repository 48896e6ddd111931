from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.quick import examples
from trace_assets.stats.tests import gap_p_value


def p(rows: list[tuple[int, int, int, int]], permutations: int = 20_000) -> float | None:
    """Rows are (lacking failed, relevant failed, lacking passed, relevant passed), one a task."""
    a, b, c, d = np.array(rows, dtype=np.int64).T
    return gap_p_value(a, b, c, d, permutations, np.random.default_rng(0))


def fisher(lacking_failed: int, failed: int, lacking_passed: int, passed: int) -> float:
    lacking, n = lacking_failed + lacking_passed, failed + passed
    ways = [
        comb(lacking, k) * comb(n - lacking, failed - k)
        for k in range(lacking_failed, min(lacking, failed) + 1)
    ]
    return sum(ways) / comb(n, failed)


@pytest.mark.parametrize("counts", [(6, 10, 3, 10), (9, 10, 2, 12), (3, 8, 4, 9), (5, 5, 0, 5)])
def test_one_trial_a_task_is_fishers_exact_test(counts: tuple[int, int, int, int]) -> None:
    lacking_failed, failed, lacking_passed, passed = counts
    rows = [(1 if i < lacking_failed else 0, 1, 0, 0) for i in range(failed)]
    rows += [(0, 0, 1 if i < lacking_passed else 0, 1) for i in range(passed)]
    assert p(rows) == pytest.approx(fisher(*counts), rel=1e-9)
    assert sampled(rows) == pytest.approx(fisher(*counts), abs=0.012)


def test_within_mixed_tasks_only_the_within_task_association_counts() -> None:
    # Hard tasks always lack it and mostly fail, easy ones never do: no effect from trial to trial.
    confounded = [(3, 3, 1, 1)] * 20 + [(0, 1, 0, 3)] * 20
    assert p(confounded) == 1.0
    # Each task has two trials, and it is the lacking one that fails: probability 2 ** -10 of that by chance.
    assert p([(1, 1, 0, 1)] * 10) == pytest.approx(2**-10, rel=1e-9)
    assert sampled([(1, 1, 0, 1)] * 10) == pytest.approx(2**-10, abs=6e-4)


def test_whole_tasks_are_shuffled_together() -> None:
    # Four tasks of 25 like trials: 1 / C(4, 2) whatever the number of trials.
    rows = [(25, 25, 0, 0), (25, 25, 0, 0), (0, 0, 0, 25), (0, 0, 0, 25)]
    assert p(rows) == pytest.approx(1 / 6, rel=1e-9)


def test_never_zero_and_never_above_one() -> None:
    strong = [(1, 1, 0, 0)] * 50 + [(0, 0, 0, 1)] * 50
    assert p(strong) == pytest.approx(1 / comb(100, 50), rel=1e-9)
    assert sampled(strong, 99) == 0.01
    many = [(1, 1, 0, 0)] * 5000 + [(0, 0, 0, 1)] * 5000  # smaller than any number of 64 bits
    assert 0 < (p(many) or 0) < 1e-300
    reverse = [(0, 1, 0, 0)] * 50 + [(0, 0, 1, 1)] * 50
    assert p(reverse) == 1.0 == sampled(reverse, 99)


task_rows = st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)).map(
    lambda row: (min(row[:2]), max(row[:2]), min(row[2:]), max(row[2:]))
)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(task_rows, min_size=2, max_size=14))
def test_exact_and_sampled_p_are_the_same_test(rows: list[tuple[int, int, int, int]]) -> None:
    exact, drawn = p(rows), sampled(rows, 4000)
    if exact is None:
        assert drawn is None
    else:
        assert 0 < exact <= 1
        assert drawn == pytest.approx(exact, abs=4.5 * (0.25 / 4000) ** 0.5)  # 4.5 standard errors


def sampled(rows: list[tuple[int, int, int, int]], permutations: int = 20_000) -> float | None:
    """The same p-value with the exact distribution put out of reach."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trace_assets.stats.tests._EXACT", -1)
        return p(rows, permutations)


@pytest.mark.parametrize("rows", [[(1, 1, 0, 0)], [(0, 0, 1, 1)], [(0, 0, 0, 0)]])
def test_no_gap_no_test(rows: list[tuple[int, int, int, int]]) -> None:
    assert p(rows) is None
