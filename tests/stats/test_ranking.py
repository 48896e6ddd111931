from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_assets.stats.ranking import concordance, rank

SCORES = st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.integers(0, 3)), min_size=1, max_size=40)


@given(SCORES)
def test_the_area_is_the_share_of_pairs_in_the_right_order(rows: list[tuple[int, bool, int]]) -> None:
    scores = np.array([row[0] for row in rows], dtype=float)
    positive = np.array([row[1] for row in rows])
    strata = [row[2] for row in rows]
    pairs = [
        1.0 if a[0] > b[0] else 0.5 if a[0] == b[0] else 0.0
        for a in rows
        for b in rows
        if a[1] and not b[1] and a[2] == b[2]
    ]
    found = rank(scores, positive, strata, list(range(len(rows))), resamples=100)
    assert found.n_pairs == len(pairs)
    if not pairs:
        assert found.auc.value is None
    else:
        assert found.auc.value == pytest.approx(np.mean(pairs))
        if found.auc.low is not None and found.auc.high is not None:
            assert 0 <= found.auc.low <= found.auc.value <= found.auc.high <= 1


def test_turning_scores_round_turns_the_area_round() -> None:
    rng = np.random.default_rng(0)
    scores, positive = rng.normal(size=50), rng.random(50) < 0.4
    one = rank(scores, positive, [0] * 50, range(50))  # type: ignore[arg-type]
    other = rank(-scores, positive, [0] * 50, range(50))  # type: ignore[arg-type]
    assert one.auc.value == pytest.approx(1 - (other.auc.value or 0))
    assert concordance(np.array([]), np.array([1.0])).shape == (0, 1)


def test_the_interval_covers_and_clusters_widen_it() -> None:
    covered, widths = 0, {True: 0.0, False: 0.0}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        positive = np.repeat(rng.random(60) < 0.5, 4)
        shift = np.repeat(rng.normal(size=60), 4)  # trials of a task are alike
        scores = shift + 0.3 * rng.normal(size=240)
        for clustered in (True, False):
            clusters = np.repeat(np.arange(60), 4).tolist() if clustered else list(range(240))
            auc = rank(scores, positive, [0] * 240, clusters, resamples=200, seed=seed).auc
            assert auc.low is not None
            assert auc.high is not None
            widths[clustered] += auc.high - auc.low
            covered += clustered and auc.low <= 0.5 <= auc.high
    assert covered >= 52
    assert widths[True] > 1.5 * widths[False]
