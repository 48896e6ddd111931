"""Fits of a beta-binomial: they find what was put in, and what they say of groups is what groups show."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.quick import examples
from trace_assets.stats.beta_binomial import (
    HIGH_ICC,
    LOW_ICC,
    BetaFit,
    all_pass,
    dead_share,
    fit,
    group_size_for,
    resampled_all_pass,
    resampled_icc,
)


def draw(alpha: float, beta: float, seeds: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.binomial(n, rng.beta(alpha, beta, seeds)), np.full(seeds, n)


@pytest.mark.parametrize(("alpha", "beta"), [(0.2, 0.5), (2.0, 3.0), (20.0, 5.0)])
def test_it_finds_the_parameters_of_many_seeds(alpha: float, beta: float) -> None:
    found = fit(*draw(alpha, beta, 20_000, 8))
    assert found.mean == pytest.approx(alpha / (alpha + beta), abs=0.01)
    assert found.icc == pytest.approx(1 / (alpha + beta + 1), abs=0.02)
    assert found.method == "maximum likelihood"


def test_no_other_parameters_are_likelier() -> None:
    passed, tried = draw(0.7, 1.5, 60, 8, seed=3)
    found = fit(passed, tried)

    def likelihood(alpha: float, beta: float) -> float:
        from math import lgamma

        return sum(
            lgamma(alpha + k) + lgamma(beta + n - k) - lgamma(alpha + beta + n)
            + lgamma(alpha + beta) - lgamma(alpha) - lgamma(beta)
            for k, n in zip(passed.tolist(), tried.tolist(), strict=True)
        )  # fmt: skip

    best = likelihood(found.alpha, found.beta)
    for factor in (0.9, 0.97, 1.03, 1.1):
        assert best >= likelihood(factor * found.alpha, found.beta)
        assert best >= likelihood(found.alpha, factor * found.beta)
        assert best >= likelihood(factor * found.alpha, factor * found.beta)


@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=40),
    st.integers(2, 32),
)
@settings(max_examples=examples(60), deadline=None)
def test_shares_are_probabilities_whatever_the_counts(pairs: list[tuple[int, int]], k: int) -> None:
    passed, tried = (np.array(side) for side in zip(*[(min(p), max(p)) for p in pairs], strict=True))
    if not tried.any():
        with pytest.raises(ValueError, match="no seed"):
            fit(passed, tried)
        return
    found = fit(passed, tried)
    assert 0 < found.mean < 1 and LOW_ICC <= found.icc <= HIGH_ICC
    assert 0 <= dead_share(found, k) <= 1 + 1e-12
    # Larger groups are dead less often, and unequal seeds more often than equal ones.
    assert dead_share(found, k + 1) <= dead_share(found, k) + 1e-12
    assert dead_share(found, k) >= found.mean**k + (1 - found.mean) ** k - 1e-9
    # The other side of the coin has the mirrored fit.
    other = fit(tried - passed, tried)
    assert other.mean == pytest.approx(1 - found.mean, abs=5e-3)
    assert dead_share(other, k) == pytest.approx(dead_share(found, k), abs=2e-2)


def test_the_share_of_dead_groups_is_what_groups_show() -> None:
    passed, tried = draw(0.3, 0.6, 400, 8, seed=1)
    found = fit(passed, tried)
    later, _ = draw(0.3, 0.6, 100_000, 16, seed=2)
    assert dead_share(found, 16) == pytest.approx(np.isin(later, (0, 16)).mean(), abs=0.05)
    # The formula at the mean says that hardly any group is dead.
    assert found.mean**16 + (1 - found.mean) ** 16 < 0.01 < 0.3 < dead_share(found, 16)


@pytest.mark.parametrize(
    ("passed", "method", "mean"),
    [([0, 0, 0], "one side only", 0.5 / 13), ([4, 4, 4], "one side only", 12.5 / 13)],
)
def test_without_a_maximum_a_stated_value_stands_in(passed: list[int], method: str, mean: float) -> None:
    found = fit(np.array(passed), np.full(3, 4))
    assert (found.method, found.icc) == (method, LOW_ICC)
    assert found.mean == pytest.approx(mean)


def test_single_rollouts_tell_nothing_of_differences() -> None:
    found = fit(np.array([1, 0, 1]), np.ones(3, dtype=np.int64))
    assert (found.method, found.icc) == ("single rollouts", LOW_ICC)
    assert found.mean == pytest.approx(2 / 3)


def test_counts_must_fit() -> None:
    with pytest.raises(ValueError, match="between 0 and"):
        fit(np.array([5]), np.array([4]))


def test_intervals_over_seeds_cover() -> None:
    truth = all_pass(BetaFit(0.4, 1 / 3, 1, 1), 8)
    covered = 0
    studies = 60
    for seed in range(studies):
        passed, tried = draw(0.8, 1.2, 64, 8, seed=seed)
        weights = np.random.default_rng(seed).multinomial(64, np.full(64, 1 / 64), size=300).astype(float)
        low, high = np.quantile(resampled_all_pass(passed, tried, weights, 8), [0.025, 0.975])
        covered += low <= truth <= high
    assert covered / studies >= 0.85


def test_resamples_of_one_kind_of_seed_are_its_fit() -> None:
    passed, tried = draw(0.5, 0.5, 50, 8, seed=9)
    once = np.ones((1, 50))
    assert resampled_all_pass(passed, tried, once, 8)[0] == pytest.approx(
        all_pass(fit(passed, tried), 8), abs=0.02
    )
    assert resampled_icc(passed, tried, once)[0] == pytest.approx(fit(passed, tried).icc, abs=0.05)
    never = resampled_all_pass(np.zeros(3, int), np.full(3, 8), np.ones((1, 3)), 8)
    assert never[0] == pytest.approx(all_pass(fit(np.zeros(3, int), np.full(3, 8)), 8))


def test_the_group_that_gives_enough_signal() -> None:
    found = BetaFit(0.1, 0.2, 64, 512)
    k = group_size_for(found, 0.4)
    assert k is not None
    assert 1 - dead_share(found, k) >= 0.4 > 1 - dead_share(found, k - 1)
    assert group_size_for(found, 0.99) is None
