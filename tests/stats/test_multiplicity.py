from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_assets.stats.tests import benjamini_hochberg


def test_known_values() -> None:
    # R: p.adjust(c(.01, .02, .03, .04, .05, .9), "BH")
    q = benjamini_hochberg([0.05, 0.01, 0.9, 0.02, 0.04, 0.03])
    assert q == pytest.approx([0.06, 0.06, 0.9, 0.06, 0.06, 0.06])
    assert benjamini_hochberg([]) == [] and benjamini_hochberg([None]) == [None]


@given(st.lists(st.none() | st.floats(1e-6, 1.0), max_size=30))
def test_q_is_ordered_like_p_and_never_below(p_values: list[float | None]) -> None:
    q_values = benjamini_hochberg(p_values)
    pairs = sorted((p, q) for p, q in zip(p_values, q_values, strict=True) if p is not None and q is not None)
    assert len(pairs) == sum(p is not None for p in p_values)
    assert all(p <= q * (1 + 1e-12) and q <= 1 for p, q in pairs)
    assert [q for _, q in pairs] == sorted(q for _, q in pairs)
    assert benjamini_hochberg(p_values[::-1]) == q_values[::-1]
