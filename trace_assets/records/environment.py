"""A generated training environment and what its audit found."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Literal

from trace_assets.records.base import Json, Record
from trace_assets.records.capability import LabelValue


class Environment(Record):
    """Row of the table `environments`."""

    table: ClassVar[str] = "environments"
    key: ClassVar[tuple[str, ...]] = ("capability_id",)

    environment_id: str
    """Hash of the source: the same code is the same environment."""
    capability_id: str
    target: str
    writer: str
    """`recipe:<name>` or `model:<name>`."""
    source: str
    """The module's Python source. It only ever runs in the sandbox."""
    n_versions: int = 1
    """Versions written before this one was kept, this one included."""


class EnvironmentCheck(Record):
    """Row of the table `environment_checks`: one finding of the audit."""

    table: ClassVar[str] = "environment_checks"
    key: ClassVar[tuple[str, ...]] = ("capability_id", "check_id")
    volatile: ClassVar[frozenset[str]] = frozenset({"timing"})

    environment_id: str
    capability_id: str
    check_id: str
    """OpenEnv RFC 008 id where one exists (`semantic.oracle_max`), `trace.*` otherwise."""
    level: Literal[
        "static", "runtime", "semantic", "adversarial", "mutation", "statistical", "fidelity", "judged"
    ]
    status: Literal["pass", "fail", "skip"]
    severity: Literal["error", "warning", "info"]
    """A failed `error` rejects the environment."""
    value: float | None = None
    low: float | None = None
    """Lower end of the 95 % interval of `value`, where it is an estimate."""
    high: float | None = None
    """Upper end of that interval."""
    n: int | None = None
    """How many seeds or episodes are behind `value`."""
    bound: str = ""
    """What was required, such as `in [0.1, 0.9]`."""
    evidence: str = ""
    timing: str = ""
    """What a clock measured: it differs between equal audits, so nothing that counts stands here."""
    sandbox_version: str = ""
    isolation_level: str = ""
    policy_version: str = ""
    """Version of the severity policy that the finding was judged by."""

    @property
    def seen(self) -> str:
        """Evidence and, where a clock ran, its figures."""
        return "; ".join(text for text in (self.evidence, self.timing) if text)


class ContractRow(Record):
    """Row of the table `target_contracts`: what every environment of a target is held to."""

    table: ClassVar[str] = "target_contracts"
    key: ClassVar[tuple[str, ...]] = ("target",)

    target: str
    fingerprint: str
    n_trajectories: int
    """Discovery trajectories that it was read from."""
    contract: Json
    """A `TargetContract`."""


class DecisionPattern(Record):
    """Row of the table `decision_patterns`: what a labelled run decided about one thing.

    This is a cut-off: environments are held against these few runs, and a later batch changes nothing once
    there are enough of them.
    """

    table: ClassVar[str] = "decision_patterns"
    key: ClassVar[tuple[str, ...]] = ("capability_id", "trajectory_id", "thing")

    capability_id: str
    trajectory_id: str
    task_id: str
    label: LabelValue
    """Of the run: the one that most passes give."""
    thing: str
    """The identifier that the calls name; empty where the label is about nothing that a call names."""
    shown: Json
    """What tools told of it first: `tool.path` to value."""
    calls: tuple[str, ...]
    """Tools that were called about it, and those that hand the conversation over, in order."""


# A version of a generated environment: what was written in one round, and why it was not the last.


class FailedCheck(Record):
    """One reason why a version was not accepted."""

    check_id: str
    """Id of the audit's check; `trace.reply` where there was nothing to audit."""
    severity: Literal["error", "warning", "info"]
    evidence: str
    bound: str = ""


class EnvironmentVersion(Record):
    """Row of the table `environment_versions`: one round of writing and mending."""

    table: ClassVar[str] = "environment_versions"
    key: ClassVar[tuple[str, ...]] = ("capability_id", "round")

    capability_id: str
    round: int
    """0 is the first draft, each further one mends what the audit found in the one before."""
    environment_id: str
    """Hash of the source; empty where the reply held no module."""
    source: str
    """The module as it was written; empty where the reply held none."""
    writer: str
    """`recipe:<name>` or `model:<name>`."""
    prompt_version: str = ""
    """Version of the prompts and of the code that fills them; empty for recipes."""
    question: str = ""
    """Hash of the question that was asked: equal questions are answered from memory."""
    reply: Literal["module", "refusal", "empty", "cut", "no_code", "unapplied"] = "module"
    """What the model's reply was; `unapplied`: changes to the version before that do not apply to it."""
    remark: str = ""
    """The words of a reply without a module, shortened."""
    prompt_tokens: int = 0
    """Of all requests of the round, when they were made."""
    completion_tokens: int = 0
    failed: tuple[FailedCheck, ...] = ()
    """What the repair audit held against it."""
    n_passed: int = 0
    """Checks that passed."""
    audited: str = ""
    """What it was audited with: versions of audit, contract and sandbox; empty where it was not."""
    isolation_level: str = ""
    accepted: bool = False
    """Whether the repair audit had nothing against it."""
    kept: bool = False
    """Whether this is the version in the table `environments`."""
    outcome: str = ""
    """On the last row: why the writing ended."""
    excerpts: str = ""
    """The transcripts that the model was shown, kept so that later labels do not change the question."""
    excerpts_of: str = ""
    """Hash of the capability's words and of the settings that chose the excerpts."""


# One attack on this machine's sandbox, and what came of it.


class SandboxCheck(Record):
    """Row of the table `sandbox_checks`: one attack of `trace doctor --sandbox`, the latest run a backend."""

    table: ClassVar[str] = "sandbox_checks"
    key: ClassVar[tuple[str, ...]] = ("isolation_level", "attack")
    volatile: ClassVar[frozenset[str]] = frozenset({"detail", "seconds", "control_ms", "checked_at"})
    restored_by: ClassVar[str] = "trace doctor --sandbox"

    attack: str
    """Name of the attack."""
    family: Literal["exhaustion", "escape", "integrity", "placement", "recovery"]
    """What it is after: time and space, a way out, a reward, the reward's place, what a kill leaves."""
    tries: str
    """What it tries, in words."""
    status: Literal["pass", "fail", "skip"]
    expected: str
    """Outcomes that are good."""
    outcome: str
    """What came of it, such as `contained`, `timeout`, `died oom`; empty for a skip."""
    detail: str = ""
    """What shows it, or why it was skipped."""
    effects: tuple[str, ...] = ()
    """What was found on the host afterwards; none is good."""
    seconds: float = 0.0
    control_ms: float | None = None
    """Milliseconds from the deadline until the host was at work again; null where no deadline passed."""
    isolation_level: str
    sandbox_version: str
    checked_at: datetime
    """When it was played, UTC."""


class UnconfirmedReward(Record):
    """Row of the table `unconfirmed_rewards`: this text of an environment is trained on no more, unasked."""

    table: ClassVar[str] = "unconfirmed_rewards"
    key: ClassVar[tuple[str, ...]] = ("environment_id",)
    restored_by: ClassVar[str] = ""

    environment_id: str
    capability_id: str
    """What the environment was to teach."""
    isolation_level: str
    """Where the episodes ran."""
    detail: str
    """Seed, number of actions, and how the two verdicts differ."""
