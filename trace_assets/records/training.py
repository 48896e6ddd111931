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


AdapterKind = Literal["capability", "mixed", "joint", "sequential", "consolidated", "joining", "together"]
"""What an adapter was trained on: one capability's environment, the target itself, the environments of all
capabilities together, or one after another; `consolidated` was taught by the composed agent on both."""


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
    """The capability's id; `mixed` for the comparison arm trained on the target itself; or the kind."""
    kind: AdapterKind
    capability_id: str | None
    environment_id: str | None
    base_id: str
    path: str
    """PEFT folder, relative to TRACE_HOME."""
    iterations: int
    best_iteration: int
    """The checkpoint kept: the best on validation seeds; 0 is what demonstrations made, before GRPO."""
    rollouts: int
    """Training episodes used, those before GRPO included."""
    demonstrations: int = 0
    """Episodes of the environment's oracle that it learned from, before GRPO or in its groups."""
    warm_rollouts: int = 0
    """Episodes played before GRPO, to find tasks that are never solved and for these; part of `rollouts`."""
    not_demonstrated: str = ""
    """Why it began with GRPO although demonstrations were due; empty where they came, or were not due."""
    rehearsed: int = 0
    """Stored successes of the base model on the target that it learned beside demonstrations. They were
    played for the diagnosis, and are no part of `rollouts`."""
    scale: float = 1.0
    """What the adapters that it was trained on top of are multiplied by where it acts with them."""
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
    demonstrations: int = 0
    """Episodes of the environment's oracle in groups of which no other succeeded."""
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


# What the base policy's rollouts foretell of training in an environment, and what training then showed.


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


# A pilot: a small share of a training run, made beforehand to see whether its reward buys anything.


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

    A cut-off: figures are left out of its version, so that adapters are trained anew only when the decision,
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
            "hint_verdict", "hint_reason", "hint_gain", "hint_gain_low", "hint_gain_high", "hint_p",
            "n_hint_tasks", "hint_control", "hint_control_low", "hint_control_high", "n_hint_control",
            "hint_rollouts",
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
    stalls: bool = False
    """Whether neither its reward nor the target is shown to have moved: with `training.warm_start`
    demonstrations come first."""
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
    hint_verdict: Literal["teach", "a prompt suffices", "neither", "undecided", ""] = ""
    """What telling the base model what it lacks came to (`training.pilot_hint`); empty where nobody asked."""
    hint_reason: str = ""
    """Why, with the figures, or why nothing was asked."""
    hint_gain: float | None = None
    """Pass rate told what it lacks minus told something else, on tasks that it failed lacking it."""
    hint_gain_low: float | None = None
    hint_gain_high: float | None = None
    hint_p: float | None = None
    """Two-sided sign-flip test over tasks."""
    n_hint_tasks: int = 0
    """Tasks that were failed lacking it and judged under both wordings."""
    hint_control: float | None = None
    """The same difference on tasks that do not need the capability."""
    hint_control_low: float | None = None
    hint_control_high: float | None = None
    n_hint_control: int = 0
    """Tasks of the control that were judged under both wordings."""
    hint_rollouts: int = 0
    """Episodes of the target that were played for it."""


# What is trained: the verdicts on environments, and the list of those that are taught.


class EnvironmentVerdict(Record):
    """Row of the table `environment_verdicts`: the outcome of an audit, without its findings.

    A cut-off: an audit with more checks, or in another sandbox, trains nothing anew unless a verdict flips.
    """

    table: ClassVar[str] = "environment_verdicts"
    key: ClassVar[tuple[str, ...]] = ("capability_id",)
    volatile: ClassVar[frozenset[str]] = frozenset({"warm_reason"})

    capability_id: str
    """The capability that the environment teaches."""
    environment_id: str
    """Hash of the source that was audited; empty when no environment was written."""
    accepted: bool
    """Whether no required check failed."""
    reasons: tuple[str, ...] = ()
    """Names of the checks that rejected it, with what they say."""
    overridden_by: str = ""
    """Why it is trained on all the same, as `training.accept_rejected` says; empty otherwise."""
    warm_start: bool = False
    """Whether training begins with demonstrations: at a tenth of the seeds or more nothing ever succeeds."""
    warm_reason: str = ""
    """The figures behind that."""

    @property
    def trained_on(self) -> bool:
        """Whether training may use it: accepted, or rejected and overridden."""
        return self.accepted or bool(self.overridden_by)


class Lesson(Record):
    """Row of the table `curriculum`: a kept capability whose environment is trained on.

    A cut-off: a selection whose wording or figures changed, and which keeps the same capabilities, trains
    and plays nothing anew.
    """

    table: ClassVar[str] = "curriculum"
    key: ClassVar[tuple[str, ...]] = ("capability_id",)

    capability_id: str
    """The capability that is taught."""


# Whether a server says what the trained model says.


class ServedParity(Record):
    """Row of the table `served_parities`: one adapter on one server, compared token by token."""

    table: ClassVar[str] = "served_parities"
    key: ClassVar[tuple[str, ...]] = ("adapter",)
    restored_by: ClassVar[str] = "trace serve --check"

    adapter: str
    """The adapter's name: its capability's id, or `mixed`; names with `+` between them for a sum."""
    adapter_id: str
    """Content hash of its PEFT folder."""
    served_as: str
    """The `model` of a request that is answered with it."""
    server: str
    """Address of the server."""
    dtype: str
    """In which the server computes, as `serving.dtype` says."""
    n_tokens: int
    """Sampled tokens compared."""
    n_episodes: int
    """Validation episodes that they come from."""
    max_difference: float
    """Largest difference of a token's log-probability between server and trained model, in nats."""
    mean_difference: float
    """Mean difference, in nats."""
    kl: float
    """Estimated KL divergence of the trained model from the server, per token, in nats."""
    effect: float
    """Largest change that the adapter makes to a log-probability: 0 for one that does nothing."""
    base_difference: float
    """Largest difference between server and base model: 0 for a server that leaves the adapter out."""
    tolerance: float
    """Largest difference that is put down to rounding, in nats."""
    passed: bool
    """Whether the server says what the trained model says, and the adapter does something."""
    detail: str
    """What was found, in one sentence."""
