"""What each arm achieved on tasks that nothing was tuned on, and what each round came to."""

from __future__ import annotations

from typing import ClassVar, Literal

from trace_assets.records.base import Json, Record, Split


class Evaluation(Record):
    """Row of the table `evaluations`: one trial of one task under one arm."""

    table: ClassVar[str] = "evaluations"
    key: ClassVar[tuple[str, ...]] = ("arm", "task_id", "trial")

    task_id: str
    trial: int
    arm: str
    """`base`, `routed`, `oracle_routed`, `composed`, `oracle_composed`, `sum`, `joint`, `sequential`,
    `consolidated`, `mixed_grpo`, `merged:<way>`, `adapter:<name>`, `round:<number>`, or on validation
    tasks `sum:<names>`."""
    adapter: str | None
    """Adapter name that acted, names with `+` between them for a sum; None for the base model."""
    success: bool | None
    """None when a fault kept the trial from being judged."""
    reward: float | None
    fault: str | None = None
    skill: str = ""
    """The generator's own tag, for the per-skill table."""
    split: Split = "test"
    """`validation` rows chose the oracle's adapters and the no-harm figures; `test` rows are the result."""


class ArmSummary(Record):
    """Row of the table `evaluation_summary`: an arm over a group of tasks, against the base arm."""

    table: ClassVar[str] = "evaluation_summary"
    key: ClassVar[tuple[str, ...]] = ("skill", "arm")

    arm: str
    skill: str
    """`all`, or one skill."""
    n_tasks: int
    n_trials: int
    n_faults: int
    pass_rate: float | None
    pass_rate_low: float | None
    pass_rate_high: float | None
    delta: float | None
    """Pass rate minus the base arm's on the same tasks."""
    delta_low: float | None
    delta_high: float | None
    """Paired bootstrap over tasks."""
    mcnemar_p: float | None
    """Exact McNemar on per-task majority outcomes against base; null for base itself."""
    pass_hat_k: float | None
    """Probability that all k trials pass, k = trials a task."""


# Which way to put the adapters together is released.


class CompositionChoice(Record):
    """Row of the table `composition_choices`: one way to put the adapters together, on validation tasks."""

    table: ClassVar[str] = "composition_choices"
    key: ClassVar[tuple[str, ...]] = ("arm",)

    arm: str
    """`base`, `routed`, `composed`, `sum`, `together`, `joint`, `sequential` or `consolidated`."""
    chosen: bool
    """Whether this is what is released: the highest pass rate of those that are not refused."""
    runner_up: bool
    """Whether it comes next."""
    refused: str
    """Why it may not be chosen, whatever its pass rate; empty for the others."""
    n_tasks: int
    """Validation tasks that were judged under it."""
    n_trials: int
    pass_rate: float | None
    """Null where it was refused and not played."""
    pass_rate_low: float | None
    pass_rate_high: float | None
    behind: float | None
    """Pass rate of the chosen one minus this one's, on the same tasks; null for the chosen one."""
    behind_low: float | None
    behind_high: float | None
    """Paired bootstrap over tasks, 95 %."""


# What an adapter does to tasks that it was not trained for.


class NoHarm(Record):
    """Row of the table `no_harm`: one adapter on validation tasks of the target, own skill and the rest.

    Differences are the adapter's pass rate minus the base model's on the same tasks; intervals are
    paired bootstraps over tasks, 95 %.
    """

    table: ClassVar[str] = "no_harm"
    key: ClassVar[tuple[str, ...]] = ("adapter",)

    adapter: str
    """The adapter's name."""
    own_skills: tuple[str, ...]
    """The generator's tags that count as its own; empty when none was found."""
    own_n: int
    """Own tasks judged under both the base model and the adapter."""
    own_base: float | None
    own_adapter: float | None
    own_delta: float | None
    own_delta_low: float | None
    own_delta_high: float | None
    other_n: int
    """Tasks of other skills judged under both."""
    other_base: float | None
    other_adapter: float | None
    other_delta: float | None
    other_delta_low: float | None
    other_delta_high: float | None
    verdict: Literal["harmless", "unclear", "harmful"]
    """Harmful: the interval on other tasks lies below 0. Harmless: its lower bound is above minus the
    margin. Unclear: neither is shown."""
    reason: str
    """The verdict in words with the figures."""


# Where a task was sent, and how good the router is.


NO_ADAPTER = "none"
"""The choice of a router that leaves the base model as it is."""


class Route(Record):
    """Row of the table `routes`: one router's decision on one task."""

    table: ClassVar[str] = "routes"
    key: ClassVar[tuple[str, ...]] = ("router", "task_id")

    router: str
    """`classifier`, `label_logits` or `oracle`."""
    task_id: str
    choice: str
    """Adapter name, or `none`."""
    probabilities: Json
    """Choice -> probability; sums to 1."""


class RouterScore(Record):
    """Row of the table `router_scores`: how good a router is, over tasks with a known best choice."""

    table: ClassVar[str] = "router_scores"
    key: ClassVar[tuple[str, ...]] = ("router", "split")

    router: str
    split: str
    n: int
    accuracy: float | None
    """Share of tasks sent to the choice that the diagnosis' labels call for."""
    accuracy_low: float | None
    accuracy_high: float | None
    calibration_error: float | None
    """Expected calibration error over ten equal-width bins."""
    majority_share: float | None
    """What always choosing the most frequent choice would score: the floor."""


class RouterRegret(Record):
    """Row of the table `router_regrets`: what following a router gains or loses against another choice.

    Both sides are composed from the same episodes, so nothing but the choices differs between them.
    """

    table: ClassVar[str] = "router_regrets"
    key: ClassVar[tuple[str, ...]] = ("router", "split", "reference")

    router: str
    split: str
    reference: Literal["oracle", "best_single", "base", "random"]
    """`random` is the expectation over a uniform choice among the base model and the adapters."""
    choice: str
    """The one variant that `best_single` or `base` always takes; empty for the others."""
    n_tasks: int
    """Tasks judged on both sides: the bootstrap resamples these."""
    router_rate: float | None
    """Mean over tasks of the pass rate under the router's choices."""
    reference_rate: float | None
    regret: float | None
    """Reference minus router: positive where the router loses."""
    regret_low: float | None
    regret_high: float | None
    """Paired bootstrap over tasks, 95 %."""


class RoutingTrial(Record):
    """Row of the table `routing_trials`: what a discovery trial of the live target lacked.

    A cut-off: trajectories of other targets, and labels of capabilities that are not taught, fit no router
    and play no adapter anew.
    """

    table: ClassVar[str] = "routing_trials"
    key: ClassVar[tuple[str, ...]] = ("trajectory_id",)

    trajectory_id: str
    """The trial; those that broke through no fault of the agent are left out."""
    task_id: str
    """Its task."""
    text: str
    """What the task is routed by: its first user message."""
    lacking: Json
    """Labelling pass -> ids of the taught capabilities that were labelled LACKING."""


class RoundAgent(Record):
    """Row of the table `round_agents`: the one model that stands for what this round taught."""

    table: ClassVar[str] = "round_agents"
    key: ClassVar[tuple[str, ...]] = ("base_id",)

    base_id: str
    agent_id: str
    """Content hash of the base model with these adapters merged in; empty where none was chosen."""
    members: tuple[str, ...]
    """The adapters of that sum, or the one for all capabilities."""
    adapter_ids: tuple[str, ...]
    """Their content hashes, in the same order."""
    path: str
    """The merged model's folder, relative to TRACE_HOME."""
    n_tasks: int
    """Validation tasks judged under both."""
    pass_rate: float | None
    """On validation tasks; of the best of several, so a little too high."""
    pass_rate_low: float | None
    pass_rate_high: float | None
    base_rate: float | None
    """The base model's, on the same tasks."""
    delta: float | None
    """`pass_rate` minus `base_rate`, with a bootstrap over tasks."""
    delta_low: float | None
    delta_high: float | None
    n_candidates: int
    """Single adapters, sums and adapters for all that were compared."""
    harmful: tuple[str, ...]
    """Candidates that are shown to lose on some skill, and were not chosen for it."""
    training_rollouts: int
    """Training episodes of all adapters of the round, chosen or not."""
    warm_started: tuple[str, ...] = ()
    """Adapters whose training began with demonstrations."""
    detail: str


class Round(Record):
    """Row of the table `rounds`: one round, as the study sees it."""

    table: ClassVar[str] = "rounds"
    key: ClassVar[tuple[str, ...]] = ("round",)
    volatile: ClassVar[frozenset[str]] = frozenset({"cpu_seconds", "rollouts"})

    round: int
    """From 1, the study's own."""
    place: str
    """Its home, relative to TRACE_HOME; empty for the first."""
    base_id: str
    n: int
    """Discovery episodes of its base model that were judged."""
    pass_rate: float | None
    """Theirs."""
    pass_rate_low: float | None
    pass_rate_high: float | None
    found: tuple[str, ...]
    """Names of the capabilities that were kept."""
    taught: tuple[str, ...]
    """Names of those whose adapter was trained."""
    warm_started: tuple[str, ...]
    """Names of those whose training began with demonstrations."""
    agent_id: str
    """The model that it came to; empty where none was chosen."""
    members: tuple[str, ...]
    """The adapters that it adds."""
    adapter_ids: tuple[str, ...]
    """Their content hashes."""
    paths: tuple[str, ...]
    """Their folders, relative to TRACE_HOME."""
    n_tasks: int
    """Validation tasks behind the three figures that follow."""
    base_rate: float | None
    """Share of them that its base model passes."""
    agent_rate: float | None
    """Share that its agent passes."""
    delta: float | None
    """The difference, with a bootstrap over tasks."""
    delta_low: float | None
    delta_high: float | None
    taken: bool
    """Whether its adapters are part of the study's agent."""
    last: bool
    """Whether no round follows."""
    detail: str
    training_rollouts: int
    """Training episodes of its adapters."""
    rollouts: int
    """Episodes that its ledger books, of every kind."""
    cpu_seconds: float
    """CPU seconds that its ledger books."""
