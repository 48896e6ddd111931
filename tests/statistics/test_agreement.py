from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_assets.statistics.agreement import krippendorff_alpha

_ = -1
KRIPPENDORFF_2011 = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, _, _, _],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, _, 3],
        [_, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, _],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, _],
    ]
).T
"""The example of the paper: nominal alpha .743."""


def test_the_published_example() -> None:
    assert krippendorff_alpha(KRIPPENDORFF_2011) == pytest.approx(0.743, abs=5e-4)


def test_full_agreement_chance_and_worse() -> None:
    assert krippendorff_alpha(np.array([[0, 0], [2, 2], [1, 1]])) == 1.0
    rng = np.random.default_rng(0)
    assert krippendorff_alpha(rng.integers(0, 3, (5000, 2))) == pytest.approx(0, abs=0.03)
    assert (krippendorff_alpha(np.array([[0, 1], [1, 0]])) or 0) < 0


@pytest.mark.parametrize(
    "codes", [np.zeros((0, 2), int), np.full((3, 2), -1), np.array([[0, -1], [-1, 1]]), np.ones((4, 2), int)]
)
def test_undefined(codes: np.ndarray) -> None:
    assert krippendorff_alpha(codes) is None


@given(st.lists(st.lists(st.integers(-1, 2), min_size=3, max_size=3), min_size=2, max_size=20), st.randoms())
def test_order_and_names_do_not_matter(rows: list[list[int]], random) -> None:  # type: ignore[no-untyped-def]
    alpha = krippendorff_alpha(np.array(rows))
    for row in rows:
        random.shuffle(row)
    random.shuffle(rows)
    renamed = np.array([[{-1: -1, 0: 2, 1: 0, 2: 1}[code] for code in row] for row in rows])
    again = krippendorff_alpha(renamed)
    assert (alpha is None) == (again is None)
    if alpha is not None:
        assert again == pytest.approx(alpha) and alpha <= 1
