"""The exact p-value against every shuffle that the null hypothesis allows, counted one by one."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.quick import examples
from trace_assets.stats import tests
from trace_assets.stats.tests import gap_p_value

Row = tuple[int, int, int, int]
"""Lacking failed, relevant failed, lacking passed, relevant passed."""


def p(rows: list[Row]) -> float | None:
    counts = np.array(rows, dtype=np.int64).T
    return gap_p_value(*counts, 100, np.random.default_rng(0))


def enumerated(rows: list[Row]) -> float:
    """Shuffle outcomes within mixed tasks, and among whole tasks of one size that ended alike."""
    strata: list[Counter[int]] = []
    sizes: dict[int, list[tuple[int, bool]]] = defaultdict(list)
    for lacking_failed, failed, lacking_passed, passed in rows:
        lacking, trials = lacking_failed + lacking_passed, failed + passed
        if failed and passed:
            labels = [1] * lacking + [0] * (trials - lacking)
            strata.append(Counter(sum(chosen) for chosen in combinations(labels, failed)))
        elif trials:
            sizes[trials].append((lacking, failed > 0))
    for tasks in sizes.values():
        values, failures = [lacking for lacking, _ in tasks], sum(failed for _, failed in tasks)
        strata.append(Counter(sum(chosen) for chosen in combinations(values, failures)))
    seen, ways, as_large = sum(row[0] for row in rows), 0, 0
    for drawn in product(*(stratum.items() for stratum in strata)):
        count = int(np.prod([times for _, times in drawn]))
        ways += count
        as_large += count * (sum(value for value, _ in drawn) >= seen)
    return as_large / ways


@pytest.mark.parametrize(
    "rows",
    [
        # Whole tasks of three trials with one, two and three lacking ones.
        [(3, 3, 0, 0), (2, 3, 0, 0), (0, 0, 1, 3), (0, 0, 2, 3), (0, 0, 0, 3), (1, 3, 0, 0)],
        [(3, 3, 0, 0), (3, 3, 0, 0), (2, 3, 0, 0), (0, 0, 1, 3), (0, 0, 1, 3), (0, 0, 2, 3), (0, 0, 3, 3)],
        [(1, 3, 0, 0), (0, 0, 3, 3), (0, 0, 2, 3), (0, 0, 1, 3)],
        # Two sizes of whole tasks, and mixed ones of which one says nothing.
        [(2, 2, 0, 0), (0, 0, 1, 2), (0, 0, 0, 2), (1, 1, 0, 0), (0, 0, 0, 1), (1, 2, 1, 2), (2, 2, 1, 1)],
        [(2, 2, 0, 1), (1, 2, 0, 2), (2, 3, 1, 2), (0, 1, 0, 2)],
    ],
)
def test_fixed_tables(rows: list[Row]) -> None:
    assert p(rows) == pytest.approx(enumerated(rows), rel=1e-9)


halves = st.integers(0, 3).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
mixed_rows = st.tuples(halves, halves).map(lambda two: (*two[0], *two[1]))
whole = st.integers(0, 3)
uniform_rows = st.tuples(whole, st.booleans()).map(
    lambda drawn: (drawn[0], 3, 0, 0) if drawn[1] else (0, 0, drawn[0], 3)
)


@settings(max_examples=examples(150))
@given(st.lists(uniform_rows, max_size=7), st.lists(mixed_rows, max_size=3))
def test_any_table(uniform: list[Row], mixed: list[Row]) -> None:
    rows = uniform + mixed
    exact = p(rows) if rows else None
    if sum(row[1] for row in rows) == 0 or sum(row[3] for row in rows) == 0:
        assert exact is None
    else:
        assert exact == pytest.approx(enumerated(rows), rel=1e-9)


def test_what_is_cheap_is_exact_and_what_is_not_is_sampled() -> None:
    """The effort is about the additions: whole tasks with several values cost most."""
    few = [(1, 1, 0, 0)] * 10 + [(0, 0, 0, 1)] * 10
    kinds = [(k % 30, 30, 0, 0) for k in range(150)] + [(0, 0, k % 30, 30) for k in range(150)]
    rng = [np.random.default_rng(seed) for seed in (0, 1)]
    assert len({gap_p_value(*np.array(few).T, 50, one) for one in rng}) == 1
    sampled = {gap_p_value(*np.array(kinds).T, 50, one) for one in rng}
    assert len(sampled) == 2 and all(one is not None and round(51 * one, 9).is_integer() for one in sampled)


def test_the_effort_that_decides_it() -> None:
    """Squares of the mixed tasks' span, and for whole tasks draws times sums times kinds of task."""
    none = np.zeros((0, 3))
    assert tests._effort(none, np.zeros(0), []) == 0
    within = np.array([[2.0, 1.0, 4.0], [3.0, 5.0, 1.0]])
    assert tests._effort(within, np.array([2, 3]), []) == (2 * 2 + 1 * 3) ** 2
    one = [(np.array([0, 2]), np.array([5, 4]), 3)]
    assert tests._effort(none, np.zeros(0), one) == 2 * 3
    two = [(np.array([0, 1, 2]), np.array([5, 4, 2]), 3)]
    assert tests._effort(none, np.zeros(0), two) == (4 + 2) * (3 + 1) * (2 * 3 + 1)
    assert tests._effort(within, np.array([2, 3]), two) == 49 + 168 + 6 * 7
    assert tests._effort(none, np.zeros(0), [*one, *one]) == 6 + 6 + 6 * 6
