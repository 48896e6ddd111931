from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.quick import examples
from trace_assets.stats.agreement import dawid_skene


def noisy(true: np.ndarray, error: float, rng: np.random.Generator) -> np.ndarray:
    wrong = rng.random(true.shape) < error
    return np.where(wrong, (true + rng.integers(1, 3, true.shape)) % 3, true)


def test_the_confusion_of_every_coder_is_recovered() -> None:
    rng = np.random.default_rng(0)
    true = rng.choice(3, 4000, p=[0.5, 0.3, 0.2])
    errors = (0.05, 0.15, 0.30)
    votes = np.stack([noisy(true, error, rng) for error in errors], axis=1)
    fit = dawid_skene(votes)
    assert fit.converged
    for coder, error in enumerate(errors):
        assert fit.confusion[coder].diagonal() == pytest.approx(np.full(3, 1 - error), abs=0.04)
    assert fit.prevalence[0] == pytest.approx([0.5, 0.3, 0.2], abs=0.03)
    wrong = (fit.posterior.argmax(axis=1) != true).mean()
    counts = np.stack([(votes == code).sum(axis=1) for code in range(3)], axis=1)
    assert wrong < (counts.argmax(axis=1) != true).mean()  # better than a majority that trusts all alike
    assert wrong < 0.06


def test_a_coder_who_mixes_up_two_labels_is_seen_through() -> None:
    rng = np.random.default_rng(1)
    true = rng.choice(3, 3000)
    swapped = np.array([0, 2, 1])[true]
    votes = np.stack([noisy(true, 0.1, rng), noisy(true, 0.1, rng), swapped], axis=1)
    fit = dawid_skene(votes)
    assert fit.confusion[2][1, 2] > 0.9 and fit.confusion[2][2, 1] > 0.9
    assert (fit.posterior.argmax(axis=1) == true).mean() > 0.97


def test_two_coders_are_enough_when_groups_differ() -> None:
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(2), 6000)
    true = np.where(groups == 0, rng.random(12_000) < 0.2, rng.random(12_000) < 0.8).astype(int)
    votes = np.stack([np.where(rng.random(12_000) < e, 1 - true, true) for e in (0.05, 0.25)], axis=1)
    fit = dawid_skene(votes, groups, classes=2)
    assert fit.confusion[0].diagonal() == pytest.approx([0.95, 0.95], abs=0.03)
    assert fit.confusion[1].diagonal() == pytest.approx([0.75, 0.75], abs=0.03)
    assert fit.prevalence[:, 1] == pytest.approx([0.2, 0.8], abs=0.03)


votes_lists = st.lists(st.lists(st.integers(-1, 2), min_size=3, max_size=3), min_size=1, max_size=30)


@settings(max_examples=examples(60), deadline=None)
@given(votes_lists, st.randoms())
def test_posteriors_are_probabilities_and_do_not_depend_on_order(rows: list[list[int]], order) -> None:  # type: ignore[no-untyped-def]
    votes = np.array(rows)
    fit = dawid_skene(votes)
    said = (votes >= 0).any(axis=1)
    assert np.isnan(fit.posterior[~said]).all()
    np.testing.assert_allclose(fit.posterior[said].sum(axis=1), 1)
    np.testing.assert_allclose(fit.confusion.sum(axis=2), 1)
    place = list(range(len(rows)))
    order.shuffle(place)
    again = dawid_skene(votes[place])
    np.testing.assert_allclose(again.posterior, fit.posterior[place], atol=1e-6)


def test_unanimous_labels_stand() -> None:
    votes = np.array([[0, 0], [1, 1], [2, 2]] * 30)
    fit = dawid_skene(votes)
    assert (fit.posterior.argmax(axis=1) == votes[:, 0]).all()
    assert fit.posterior.max(axis=1).min() > 0.99
