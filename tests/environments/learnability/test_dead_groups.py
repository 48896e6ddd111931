"""The foretold share of dead groups against groups that are drawn, with two rewards and with graded ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from trace_assets.environments.learnability import MAX_DRIFT, forecast, seed_outcomes, seen
from trace_assets.records import SeedOutcome, TrainingPoint, Trajectory

Play = Callable[[np.random.Generator, float, int], tuple[bool, float]]


def two(rng: np.random.Generator, p: float, seed: int) -> tuple[bool, float]:
    success = bool(rng.random() < p)
    return success, float(success)


def two_kinds(rng: np.random.Generator, p: float, seed: int) -> tuple[bool, float]:
    """Failures are worth one thing on even seeds and another on odd ones."""
    success = bool(rng.random() < p)
    return success, 1.0 if success else (0.2 if seed % 2 else 0.5)


def graded(rng: np.random.Generator, p: float, seed: int) -> tuple[bool, float]:
    success = bool(rng.random() < p)
    return success, 1.0 if success else float(rng.choice([0.0, 0.2, 0.5]))


def outcomes(play: Play, alpha: float, beta: float, seeds: int, n: int, seed: int) -> list[SeedOutcome]:
    rng, found = np.random.default_rng(seed), []
    for number in range(seeds):
        p = rng.beta(alpha, beta)
        rollouts = [play(rng, p, number) for _ in range(n)]
        found.append(
            SeedOutcome(
                capability_id="c",
                environment_id="e",
                seed=number,
                n=n,
                passed=sum(success for success, _ in rollouts),
                pass_rewards=tuple(sorted(reward for success, reward in rollouts if success)),
                fail_rewards=tuple(sorted(reward for success, reward in rollouts if not success)),
            )
        )
    return found


def dead(groups: list[SeedOutcome]) -> float:
    return float(np.mean([len({*one.pass_rewards, *one.fail_rewards}) == 1 for one in groups]))


PLAYS, RATES, SIZES = (two, two_kinds, graded), ((0.3, 0.7), (3.0, 9.0), (0.9, 0.3)), (4, 8, 16)


@pytest.mark.parametrize(
    ("play", "alpha", "beta", "k"),
    # A Latin square: each play with each rate, each play with each size and each rate with each size, once.
    [(PLAYS[i], *RATES[j], SIZES[(i + j) % 3]) for i in range(3) for j in range(3)],
)
def test_it_comes_out_within_ten_points(play: Play, alpha: float, beta: float, k: int) -> None:
    foretold = forecast(outcomes(play, alpha, beta, 64, 8, seed=4), k, resamples=200)
    drawn = dead(outcomes(play, alpha, beta, 1500, k, seed=5))
    assert foretold is not None and foretold.dead.value is not None
    assert abs(foretold.dead.value - drawn) < 0.10
    assert foretold.dead.low is not None and foretold.dead.high is not None
    assert foretold.dead.low - 0.05 <= drawn <= foretold.dead.high + 0.05


def test_with_graded_rewards_fewer_groups_are_dead_than_have_one_outcome() -> None:
    foretold = forecast(outcomes(graded, 0.3, 0.7, 64, 8, seed=4), 8, resamples=50)
    assert foretold is not None and foretold.dead.value is not None and foretold.one_outcome.value is not None
    assert foretold.dead.value < foretold.one_outcome.value - 0.2
    assert foretold.one_outcome.value == pytest.approx(foretold.all_pass + foretold.all_fail)
    value, low, high = foretold.signal_interval()
    assert low <= value <= high and value == pytest.approx(1 - foretold.one_outcome.value)


def test_nothing_judged_foretells_nothing() -> None:
    assert forecast([], 8) is None


def episode(seed: int, success: bool | None, reward: float | None) -> Trajectory:
    return Trajectory(
        trajectory_id=f"{seed}/{success}/{reward}",
        task_id=f"env:c/{seed}",
        target="env:c",
        task_batch="b",
        policy="p",
        success=success,
        reward=reward,
    )


def test_broken_episodes_are_no_outcomes() -> None:
    played = [episode(7, True, 1.0), episode(7, False, 0.2), episode(7, None, None), episode(3, False, 0.0)]
    first, second = seed_outcomes("c", "e", played)
    assert (first.seed, first.n, first.passed, first.fail_rewards) == (3, 1, 0, (0.0,))
    assert (second.n, second.passed, second.pass_rewards, second.fail_rewards) == (2, 1, (1.0,), (0.2,))


def curve(rates: list[float], dead_groups: list[float]) -> list[TrainingPoint]:
    return [
        TrainingPoint(
            name="a",
            iteration=number,
            reward_mean=rate,
            reward_std=0.1,
            success_rate=rate,
            n=128,
            dead_groups=share,
        )
        for number, (rate, share) in enumerate(zip(rates, dead_groups, strict=True), start=1)
    ]


def test_the_window_ends_when_the_policy_has_moved_or_the_warmup_is_over() -> None:
    still = seen(curve([0.3] * 10, [0.5] * 4 + [0.0] * 6), 16, 0.3, warmup=3)
    assert still is not None
    assert (still.window, still.n_groups, still.dead.value) == (4, 64, 0.5)
    moved = seen(curve([0.3, 0.3, 0.3 + 4 * MAX_DRIFT, 0.9], [0.5, 0.3, 0.1, 0.1]), 16, 0.3, warmup=3)
    assert moved is not None
    assert (moved.window, moved.dead.value) == (2, 0.4)
    assert seen([], 16, 0.3, warmup=3) is None


def test_the_first_iteration_always_counts() -> None:
    found = seen(curve([0.9, 0.9], [0.2, 0.0]), 16, 0.3, warmup=3)
    assert found is not None and (found.window, found.n_groups) == (1, 16)
