"""What the base policy's rollouts foretell of training in an environment, and what training then showed."""

from __future__ import annotations

from typing import ClassVar

from trace_assets.records.base import Record


class SeedOutcome(Record):
    """Row of the table `seed_outcomes`: what the base policy did on one seed of an environment's audit."""

    table: ClassVar[str] = "seed_outcomes"
    key: ClassVar[tuple[str, ...]] = ("capability_id", "seed")

    capability_id: str
    environment_id: str
    seed: int
    n: int
    """Rollouts that were judged; those that broke are left out."""
    passed: int
    """Of them successful."""
    pass_rewards: tuple[float, ...]
    """Rewards of those that were successful, smallest first."""
    fail_rewards: tuple[float, ...]
    """Rewards of the others, smallest first."""


class Learnability(Record):
    """Row of the table `learnability`: the forecast for one environment beside what its training showed."""

    table: ClassVar[str] = "learnability"
    key: ClassVar[tuple[str, ...]] = ("capability_id",)
    volatile: ClassVar[frozenset[str]] = frozenset({"sandbox_share", "sandbox_cpu_share"})

    capability_id: str
    environment_id: str
    adapter_id: str
    """Empty when nothing was trained."""
    n_seeds: int
    """Seeds of the audit behind the fit."""
    n_rollouts: int
    """Their rollouts."""
    fit: str
    """How the fit was made: `maximum likelihood`, or what stands in its place."""
    alpha: float | None
    """First parameter of the Beta distribution of a seed's pass rate."""
    beta: float | None
    """Second parameter of it."""
    pass_rate: float | None
    """Its mean."""
    icc: float | None
    """1 / (alpha + beta + 1): 0 where all seeds are equally hard, 1 where each always or never passes."""
    icc_low: float | None
    icc_high: float | None
    group_size: int
    """Rollouts a group in training: what the shares below are for."""
    all_pass: float | None
    """Share of groups that all pass, under the fit."""
    all_fail: float | None
    """Share of groups that all fail, under the fit."""
    plug_in: float | None
    """Their sum were all seeds equally hard."""
    dead_predicted: float | None
    """Share of groups with one outcome whose rewards are also equal: what training calls dead."""
    dead_low: float | None
    """Lower end of its 95 % interval over seeds."""
    dead_high: float | None
    """Upper end of its 95 % interval over seeds."""
    dead_seen: float | None
    """Share of dead groups in the iterations compared."""
    dead_seen_low: float | None
    dead_seen_high: float | None
    n_groups: int
    """Groups of the iterations compared."""
    n_iterations: int
    """Iterations compared, from the first."""
    error: float | None
    """Seen minus predicted."""
    signal_group_size: int | None
    """The smallest group in which the wanted share of groups holds both outcomes; null where none does."""
    sandbox_share: float | None
    """Wall time in calls into the sandbox over that of all iterations; null without a sandbox."""
    sandbox_cpu_share: float | None
    """CPU time of the training process in these calls, over the same."""
