"""A trained LoRA adapter and the curve that led to it."""

from __future__ import annotations

from typing import ClassVar, Literal

from trace_assets.records.base import Record


class BaseCheckpoint(Record):
    """Row of the table `base_models`: the policy that is diagnosed and adapted."""

    table: ClassVar[str] = "base_models"
    key: ClassVar[tuple[str, ...]] = ("base_id",)
    volatile: ClassVar[frozenset[str]] = frozenset({"seconds"})

    base_id: str
    """Content hash of the model folder."""
    path: str
    """Folder, relative to TRACE_HOME, or a hub name for real models."""
    parameters: int
    steps: int
    pass_rate: float | None
    """On the target's validation tasks at the rollout temperature; null for a model not trained here."""
    pass_rate_low: float | None
    pass_rate_high: float | None
    n: int
    seconds: float = 0.0


class Adapter(Record):
    """Row of the table `adapters`."""

    table: ClassVar[str] = "adapters"
    key: ClassVar[tuple[str, ...]] = ("name",)
    volatile: ClassVar[frozenset[str]] = frozenset(
        {"seconds", "recomputed", "recomputed_of", "isolation_level", "sandbox_version"}
    )

    adapter_id: str
    """Content hash of the PEFT folder: the name under which it is served."""
    name: str
    """The capability's id, or `mixed` for the comparison arm trained on the target itself."""
    kind: Literal["capability", "mixed"]
    capability_id: str | None
    environment_id: str | None
    base_id: str
    path: str
    """PEFT folder, relative to TRACE_HOME."""
    iterations: int
    best_iteration: int
    """The checkpoint kept: the best on validation seeds."""
    rollouts: int
    """Training episodes used."""
    validation_before: float
    validation_before_low: float
    validation_before_high: float
    validation_after: float
    validation_after_low: float
    validation_after_high: float
    validation_n: int
    """Episodes on the environment's held-out seeds, each side."""
    rejected: str = ""
    """Why its environment was rejected and trained on all the same; empty when it was accepted."""
    recomputed: int = 0
    """Of the episodes behind it, how many were played again in fresh sandboxes, with the same verdict."""
    recomputed_of: int = 0
    """Episodes in sandboxes that these were drawn from; 0 where none was used."""
    isolation_level: str = ""
    """What held the environment while it was played: `docker`, `bubblewrap` or `none`; empty without one."""
    sandbox_version: str = ""
    seconds: float = 0.0


class TrainingPoint(Record):
    """Row of the table `training_curves`: one iteration of GRPO."""

    table: ClassVar[str] = "training_curves"
    key: ClassVar[tuple[str, ...]] = ("name", "iteration")
    volatile: ClassVar[frozenset[str]] = frozenset(
        {"seconds", "sandbox_seconds", "sandbox_cpu_seconds"}
        | {"grad_norm", "sampler_kl", "sampler_difference", "outside_clip"}
    )

    name: str
    """The adapter's name."""
    iteration: int
    reward_mean: float
    reward_std: float
    success_rate: float
    n: int
    """Rollouts behind this point: the judged ones of the groups that were drawn first."""
    dead_groups: float
    """Share of groups without variance: they carry no gradient. Of those that were drawn first, whether or
    not they were drawn anew."""
    live_groups: float | None = None
    """Share of groups with variance in the batch that was trained on, after dead ones were drawn anew."""
    redrawn_groups: int = 0
    """Groups that were played in the place of dead ones, live or not."""
    rollouts: int | None = None
    """Training episodes that the iteration spent: all groups, also broken episodes, second tries not."""
    loss: float | None = None
    entropy: float | None = None
    clip_ratio: float | None = None
    """Share of tokens that the loss clips; 0 with one optimizer step a batch."""
    grad_norm: float | None = None
    """Norm of the gradient before it is clipped; 0 where no group carried one."""
    sampler_kl: float | None = None
    """KL(sampler, trainer) in nats a token, over the own tokens of episodes with an advantage."""
    sampler_difference: float | None = None
    """Largest difference of a token's log-probability between sampler and trainer, in nats."""
    outside_clip: float | None = None
    """Share of these tokens whose ratio trainer / sampler lies outside the clip range before any step."""
    learning_rate: float | None = None
    validation_rate: float | None = None
    """Success on validation seeds, where it was measured at this iteration."""
    validation_n: int | None = None
    seconds: float = 0.0
    """Wall time of the iteration: rollouts, optimizer step, and validation where it was measured."""
    sandbox_seconds: float | None = None
    """Wall time therein that was spent in calls into the sandbox, waiting included; null on a target that
    runs in none."""
    sandbox_cpu_seconds: float | None = None
    """CPU time of the training process in these calls; what runs inside the sandbox is not in it."""
