"""A pilot: a small share of a training run, made beforehand to see whether its reward buys anything."""

from __future__ import annotations

from typing import ClassVar, Literal

from trace_assets.records.base import Record


class PilotPoint(Record):
    """Row of the table `pilot_points`: one checkpoint of a pilot, in the environment and on the target."""

    table: ClassVar[str] = "pilot_points"
    key: ClassVar[tuple[str, ...]] = ("capability_id", "checkpoint")

    capability_id: str
    checkpoint: int
    """Optimizer steps so far; 0 is the base model."""
    rollouts: int
    """Training episodes so far."""
    reward: float
    """Mean reward on held-out seeds of the environment."""
    success_rate: float
    n_seeds: int
    """Held-out seeds, one episode each."""
    target_rate: float | None
    """Pass rate on the target's tasks; null where none was found."""
    n_tasks: int
    """Target tasks."""
    n_episodes: int
    """Episodes of these tasks."""


class Pilot(Record):
    """Row of the table `pilots`: what a pilot came to.

    A firewall: figures are left out of its version, so that adapters are trained anew only when the decision,
    or the environment it is about, is another one.
    """

    table: ClassVar[str] = "pilots"
    key: ClassVar[tuple[str, ...]] = ("capability_id",)
    volatile: ClassVar[frozenset[str]] = frozenset(
        {
            "outcome", "reason", "rollouts", "budget_share", "n_checkpoints", "correlation",
            "correlation_low", "correlation_high", "reward_gain", "reward_gain_low", "reward_gain_high",
            "target_gain", "target_gain_low", "target_gain_high", "target_p", "n_seeds", "n_tasks",
            "tasks_are", "seconds", "isolation_level", "sandbox_version",
        }
    )  # fmt: skip

    capability_id: str
    environment_id: str
    """Empty when no pilot was made."""
    outcome: Literal["transfers", "undecided", "stopped", "not made"]
    goes_on: bool
    """Whether the full run is made."""
    reason: str
    """Why, with the figures."""
    rollouts: int = 0
    """Training episodes of the pilot; its weights are thrown away."""
    budget_share: float = 0.0
    """Of the training episodes of the full run."""
    n_checkpoints: int = 0
    """The base model and one after each optimizer step."""
    correlation: float | None = None
    """Of reward and the target's pass rate over checkpoints, the base model included."""
    correlation_low: float | None = None
    correlation_high: float | None = None
    """95 %, over seeds and tasks."""
    reward_gain: float | None = None
    """Last checkpoint minus base model, on the same held-out seeds."""
    reward_gain_low: float | None = None
    reward_gain_high: float | None = None
    n_seeds: int = 0
    """Held-out seeds that were judged at every checkpoint."""
    target_gain: float | None = None
    """The same on the target's tasks: pass rate."""
    target_gain_low: float | None = None
    target_gain_high: float | None = None
    target_p: float | None = None
    """Two-sided sign-flip test over tasks."""
    n_tasks: int = 0
    """Target tasks that were judged at every checkpoint."""
    tasks_are: str = ""
    """Which tasks of the target: those that need the capability, or all."""
    isolation_level: str = ""
    """What held the environment while it was played: `docker`, `bubblewrap` or `none`; empty without one."""
    sandbox_version: str = ""
    seconds: float = 0.0
