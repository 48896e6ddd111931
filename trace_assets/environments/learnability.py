"""The share of groups without gradient that training will meet, foretold from the base policy's rollouts.

GRPO learns from differences within a group of K rollouts of one seed. A group whose rewards are all equal is
dead. With two outcomes that has probability p^K + (1 - p)^K for a seed's pass rate p, and E[p^K] + E[(1-p)^K]
over seeds; at the mean pass rate it is far less than that when seeds differ, so p is given a Beta
distribution (`statistics.beta_binomial`).

With graded rewards two failures need not be worth the same, and such a group is alive. So the share of
groups that all fail is multiplied by the chance that K failures of one seed are worth the same: the sum over
rewards r of E[q_r^K], where q_r, the share of a seed's failures that earn exactly r, has a Beta distribution
of its own, fitted to counts of failures alone. The same holds for the groups that all pass. This takes a
seed's pass rate and what its failures are worth as independent. (One Beta for each reward over all rollouts
would need no such assumption, but its tails are wrong where kinds of seeds fail in ways of their own: it
foretold 20 % dead groups in an environment that had 8 %.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trace_assets.records import EnvironmentCheck, SeedOutcome, TrainingPoint, Trajectory
from trace_assets.stats.beta_binomial import (
    BetaFit,
    all_pass,
    dead_share,
    fit,
    resampled_all_pass,
    resampled_icc,
)
from trace_assets.stats.intervals import Estimate, score_interval
from trace_assets.stats.paired import Gain

_PLACES = 9
"""Rewards that agree in so many decimal places are one reward."""
MAX_DRIFT = 0.10
"""By how much the success rate may leave the base policy's before the window of comparison ends."""


@dataclass(frozen=True)
class Forecast:
    """What the base policy's rollouts say of groups of K.

    Attributes:
        success: The fit to the seeds' pass rates.
        icc: Its intraclass correlation with an interval over seeds.
        group_size: K.
        all_pass: Share of groups that all pass.
        all_fail: Share of groups that all fail.
        plug_in: Their sum were all seeds equally hard.
        dead: Share of groups with one reward, with an interval over seeds.
        n_rewards: Different rewards that were seen.
    """

    success: BetaFit
    icc: Estimate
    group_size: int
    all_pass: float
    all_fail: float
    plug_in: float
    dead: Estimate
    n_rewards: int
    one_outcome: Estimate
    """`all_pass` + `all_fail`, with an interval over seeds."""

    def signal_interval(self) -> tuple[float, float, float]:
        """Return the share of groups with both outcomes, and its interval (0 to 1 where there is none)."""
        value, low, high = self.one_outcome.value or 0.0, self.one_outcome.low, self.one_outcome.high
        return 1 - value, 1 - (1.0 if high is None else high), 1 - (0.0 if low is None else low)


@dataclass(frozen=True)
class Seen:
    """Dead groups in the first iterations of training.

    Attributes:
        window: Iterations that count, from the first.
        n_groups: Their groups.
        dead: The share that was dead, with an interval as if groups were independent.
    """

    window: int
    n_groups: int
    dead: Estimate


def seed_outcomes(capability_id: str, environment_id: str, played: Iterable[Trajectory]) -> list[SeedOutcome]:
    """Count the base policy's outcomes by seed; episodes that broke are left out.

    Args:
        capability_id: The capability that the environment teaches.
        environment_id: The environment.
        played: Episodes in it; the seed is the end of the task id, as `SandboxedTarget` names tasks.
    """
    judged: dict[int, list[Trajectory]] = defaultdict(list)
    for one in played:
        if one.success is not None and one.reward is not None:
            judged[int(one.task_id.rpartition("/")[2])].append(one)
    return [
        SeedOutcome(
            capability_id=capability_id,
            environment_id=environment_id,
            seed=seed,
            n=len(own),
            passed=sum(bool(one.success) for one in own),
            pass_rewards=_rewards(own, True),
            fail_rewards=_rewards(own, False),
        )
        for seed, own in sorted(judged.items())
    ]


def _rewards(played: Iterable[Trajectory], success: bool) -> tuple[float, ...]:
    return tuple(sorted(round(one.reward or 0.0, _PLACES) for one in played if one.success is success))


def forecast(
    outcomes: Sequence[SeedOutcome], group_size: int, *, resamples: int = 1000, seed: int = 0
) -> Forecast | None:
    """Foretell the share of dead groups for a group size.

    Args:
        outcomes: Counts by seed.
        group_size: Rollouts a group in training, K.
        resamples: Bootstrap draws of whole seeds behind the intervals.
        seed: Of the bootstrap.

    Returns:
        The forecast; None when nothing was judged.

    >>> never = [SeedOutcome(capability_id="c", environment_id="e", seed=i, n=4, passed=0, pass_rewards=(),
    ...                      fail_rewards=(0.0,) * 4) for i in range(8)]
    >>> round(forecast(never, 8).dead.value, 1)
    0.8
    """
    outcomes = [one for one in outcomes if one.n]
    if not outcomes:
        return None
    tried = np.array([one.n for one in outcomes], dtype=np.int64)
    passed = np.array([one.passed for one in outcomes], dtype=np.int64)
    rng = np.random.default_rng(seed)
    drawn_seeds = rng.multinomial(len(outcomes), np.full(len(outcomes), 1 / len(outcomes)), size=resamples)
    weights: NDArray[np.float64] = drawn_seeds.astype(np.float64)
    success = fit(passed, tried)
    passing = all_pass(success, group_size)
    failing = dead_share(success, group_size) - passing
    value, drawn, uniform = 0.0, np.zeros(resamples), np.zeros(resamples)
    for share, counts, rewards in (
        (passing, passed, [one.pass_rewards for one in outcomes]),
        (failing, tried - passed, [one.fail_rewards for one in outcomes]),
    ):
        equal, equal_drawn = _equal(rewards, counts, weights, group_size)
        value += share * equal
        shares = resampled_all_pass(counts, tried, weights, group_size)
        drawn, uniform = drawn + shares * equal_drawn, uniform + shares
    low, high = _percentiles(drawn, value, len(outcomes))
    one_low, one_high = _percentiles(uniform, passing + failing, len(outcomes))
    icc_low, icc_high = _percentiles(resampled_icc(passed, tried, weights), success.icc, len(outcomes))
    return Forecast(
        one_outcome=Estimate(passing + failing, one_low, one_high),
        success=success,
        icc=Estimate(success.icc, icc_low, icc_high),
        group_size=group_size,
        all_pass=passing,
        all_fail=failing,
        plug_in=success.mean**group_size + (1 - success.mean) ** group_size,
        dead=Estimate(value, low, high),
        n_rewards=len({r for one in outcomes for r in (*one.pass_rewards, *one.fail_rewards)}),
    )


def _equal(
    rewards: Sequence[tuple[float, ...]], counts: NDArray[np.int64], weights: NDArray[np.float64], k: int
) -> tuple[float, NDArray[np.float64]]:
    """Return the chance that k rollouts of a seed with one outcome earn the same; also by resample."""
    there = counts > 0
    if not there.any():
        return 1.0, np.ones(len(weights))
    value, drawn = 0.0, np.zeros(len(weights))
    for level in sorted({reward for own in rewards for reward in own}):
        earned = np.array([own.count(level) for own in rewards], dtype=np.int64)[there]
        value += all_pass(fit(earned, counts[there]), k)
        drawn += resampled_all_pass(earned, counts[there], weights[:, there], k)
    return min(1.0, value), np.minimum(drawn, 1.0)


def _percentiles(drawn: NDArray[np.float64], value: float, n: int) -> tuple[float | None, float | None]:
    if n < 2:
        return None, None
    low, high = np.quantile(drawn, [0.025, 0.975])
    return min(value, float(low)), max(value, float(high))


def seen(points: Sequence[TrainingPoint], groups: int, base_rate: float, warmup: int) -> Seen | None:
    """Return the share of dead groups while training still played about as the base policy does.

    The window is the first iteration, which the base policy itself plays, and then those of the warm-up and
    the first one at the full rate, for as long as the success rate since the beginning stays within
    `MAX_DRIFT` of the base policy's: one iteration alone holds too few groups to tell 10 points. It ends by
    how often training succeeded and never by what is compared, the dead groups.

    Args:
        points: The curve.
        groups: Groups an iteration.
        base_rate: The base policy's pass rate in the environment.
        warmup: Iterations of warm-up.
    """
    ordered = sorted(points, key=lambda point: point.iteration)
    if not ordered:
        return None
    window = 1
    for number in range(2, min(len(ordered), warmup + 1) + 1):
        judged = sum(point.n for point in ordered[:number])
        rate = sum(point.success_rate * point.n for point in ordered[:number]) / max(1, judged)
        if abs(rate - base_rate) > MAX_DRIFT:
            break
        window = number
    n = groups * window
    share = sum(point.dead_groups for point in ordered[:window]) / window
    return Seen(window, n, Estimate(share, *score_interval(share, n)))


# What a pilot says: whether the environment's reward buys anything on the target.


Outcome = Literal["transfers", "undecided", "stopped"]

MIN_TASKS = 8
"""Target tasks below which nothing is decided."""


@dataclass(frozen=True)
class Decision:
    """What a pilot came to.

    Attributes:
        outcome: `stopped` keeps the full run from being made.
        reason: One sentence with the figures.
    """

    outcome: Outcome
    reason: str


def decide(synthetic: Gain, target: Gain | None, min_transfer: float, *, needed: bool = True) -> Decision:
    """Decide whether the full run is made.

    Both gains are last checkpoint minus base model, on the same seeds and tasks. In this order:

    1. fewer than `MIN_TASKS` target tasks: undecided;
    2. the lower end of the reward's gain is not above 0: undecided, so short a training moved nothing;
    3. the upper end of the target's gain is below 0: stopped;
    4. the lower end of the target's gain is above 0: transfers;
    5. the upper end of the target's gain is below `min_transfer` of the reward's gain: stopped. The reward
       rises and the target does not follow;
    6. else undecided: too few rollouts or tasks to tell.

    At a true gain of `min_transfer` of the reward's or more, rule 5 stops wrongly in at most one of 40 pilots
    (the interval's upper tail). What is not decided goes on: a pilot is small, and a wrong stop costs more
    than a run that the adapter's own validation will judge.

    Args:
        synthetic: Of the reward in the environment, by seed.
        target: Of the pass rate on the target, by task; None where no task was found.
        min_transfer: Share of the reward's gain that the target must be able to show, in [0, 1].
        needed: Whether the tasks are known to need the capability. Where they are all kinds of tasks a gain
            on the few that need it drowns in the others: rule 5 is left out.

    >>> up, flat = Gain(0.4, 0.3, 0.5, 0.001, 64), Gain(0.0, -0.05, 0.05, 1.0, 64)
    >>> decide(up, up, 0.25).outcome, decide(up, flat, 0.25).outcome, decide(flat, flat, 0.25).outcome
    ('transfers', 'stopped', 'undecided')
    """
    if target is None or target.n < MIN_TASKS:
        n = 0 if target is None else target.n
        return Decision("undecided", f"only {n} of the target's tasks need it, which is too few to tell")
    figures = f"reward {_words(synthetic, 'seeds')}, target {_words(target, 'tasks')}"
    if synthetic.low <= 0:
        return Decision("undecided", f"the reward is not shown to have risen: {figures}")
    if target.high < 0:
        return Decision("stopped", f"the reward rises and the target's pass rate falls: {figures}")
    if target.low > 0:
        return Decision("transfers", f"both rise: {figures}")
    if needed and target.high < min_transfer * synthetic.value:
        return Decision(
            "stopped",
            f"the reward rises and the target's pass rate does not follow, not even by {min_transfer:.0%} of "
            f"it: {figures}",
        )
    return Decision("undecided", f"the reward rises; whether the target follows cannot be told: {figures}")


def stalls(synthetic: Gain, target: Gain | None) -> bool:
    """Whether so short a GRPO run has moved nothing: neither reward nor target is shown to have moved.

    A few dozen rollouts often leave the reward's interval just across 0 where the target has risen without a
    doubt; GRPO learns that alone. Where either has fallen it moved something too, if the wrong way.

    Args:
        synthetic: The reward's gain in the environment, by seed.
        target: The pass rate's on the target, by task; None where no task was found.

    >>> up, flat = Gain(0.6, 0.5, 0.7, 0.001, 64), Gain(0.1, -0.01, 0.2, 0.1, 64)
    >>> down = Gain(-0.2, -0.3, -0.1, 0.001, 64)
    >>> stalls(flat, flat), stalls(flat, None), stalls(flat, up), stalls(up, flat)
    (True, True, False, False)
    >>> stalls(flat, down), stalls(down, flat)
    (False, False)
    """
    return all(gain is None or gain.low <= 0 <= gain.high for gain in (synthetic, target))


def _words(found: Gain, noun: str) -> str:
    return (
        f"{found.value:+.2f} [{found.low:+.2f}, {found.high:+.2f}] (n = {found.n} {noun}, p = {found.p:.2g})"
    )


# Whether there is anything to amplify, or demonstrations have to come first.


DEAD = frozenset({"trace.pass_band", "trace.dead_groups"})
"""Checks of an audit that fail for want of groups with a gradient alone."""


def only_dead(checks: Sequence[EnvironmentCheck]) -> bool:
    """Say whether an audit found nothing wrong but that too few groups carry a gradient."""
    failed = {c.check_id for c in checks if c.status == "fail" and c.severity == "error"}
    return bool(failed) and failed <= DEAD


NEVER = 0.10
"""Share of seeds at which nothing can succeed from which on these are a kind of task, and no bad luck."""


def why_warm_start(outcomes: Sequence[SeedOutcome]) -> str:
    """Say why training in an environment begins with demonstrations; empty where it begins with GRPO.

    GRPO raises what sometimes succeeds. Seeds of which no rollout succeeds at all give it nothing to raise,
    however much there is to raise at the others. Some of these could succeed and had bad luck: by Chao (1984)
    at least f1 (f1 - 1) / 2 (f2 + 1), where f1 and f2 are the seeds of which one or two rollouts succeeded.
    Those beyond that count as a kind of task that never succeeds.

    >>> def seeds(passed, count):
    ...     return [SeedOutcome(capability_id="c", environment_id="e", seed=i, n=8, passed=passed,
    ...             pass_rewards=(1.0,) * passed, fail_rewards=(0.0,) * (8 - passed)) for i in range(count)]
    >>> why_warm_start(seeds(7, 20) + seeds(0, 10))
    'of 10 of 30 seeds no rollout succeeded (0 of them by bad luck), which are 80 of 100 failures'
    >>> why_warm_start(seeds(3, 20) + seeds(0, 10))  # whatever there is to raise beside them
    'of 10 of 30 seeds no rollout succeeded (0 of them by bad luck), which are 80 of 180 failures'
    >>> why_warm_start(seeds(8, 30)), why_warm_start(seeds(2, 10) + seeds(1, 14) + seeds(0, 8))
    ('', '')
    """
    judged = [one for one in outcomes if one.n]
    never = [one for one in judged if one.passed == 0]
    chance = unlucky(judged)
    if not never or len(never) - chance < max(1.0, NEVER * len(judged)):
        return ""
    failures, hopeless = sum(one.n - one.passed for one in judged), sum(one.n for one in never)
    return (
        f"of {len(never)} of {len(judged)} seeds no rollout succeeded ({chance:.0f} of them by bad luck), "
        f"which are {hopeless:,} of {failures:,} failures"
    )


def unlucky(outcomes: Sequence[SeedOutcome]) -> float:
    """Estimate how many seeds could succeed among those of which no rollout did (Chao 1984).

    The bias-corrected lower bound f1 (f1 - 1) / 2 (f2 + 1) times (n - 1) / n, n the rollouts of a seed.

    Args:
        outcomes: Counts by seed.
    """
    once, twice = (sum(one.passed == count for one in outcomes) for count in (1, 2))
    rollouts = max((one.n for one in outcomes), default=1)
    return (rollouts - 1) / rollouts * max(0, once * (once - 1)) / (2 * (twice + 1))
