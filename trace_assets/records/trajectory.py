"""A trajectory: everything one agent did on one trial of one task, and how it was judged."""

from __future__ import annotations

from typing import ClassVar, Literal

from trace_assets.records.base import Int64, Json, Record, Split
from trace_assets.records.message import Message, MessageRow
from trace_assets.records.verdict import Check, CheckRow, Stop

Fault = Literal["agent", "user_simulator", "ground_truth", "environment", "infrastructure"]


class TrajectoryHead(Record):
    """Row of the table `trajectories`: all but the messages and checks.

    With the view `transcripts` a superset of Inspect Scout's transcript schema.
    """

    table: ClassVar[str] = "trajectories"
    key: ClassVar[tuple[str, ...]] = ("trajectory_id",)
    volatile: ClassVar[frozenset[str]] = frozenset({"seconds", "source_uri"})

    trajectory_id: str
    task_id: str
    target: str
    split: Split = "discovery"
    task_batch: str
    trial: Int64 = 0
    seed: Int64 | None = None
    policy: str
    """Who acted: a model or program name."""
    adapter: str | None = None
    """Adapter id when one was applied to the policy."""
    user_policy: str | None = None
    """Who played the user, when somebody did."""
    success: bool | None = None
    reward: float | None = None
    """None when the episode was not judged: never replaced by 0."""
    stop: Stop = "unknown"
    fault: Fault | None = None
    """Set where the episode itself broke; triage decides for the others."""
    error: str | None = None
    """What broke, for faults."""
    n_messages: int = 0
    prompt_tokens: Int64 | None = None
    completion_tokens: Int64 | None = None
    cost_usd: float | None = None
    seconds: float | None = None
    source: str = "rollout"
    """`rollout`, or `importer:file name` for trajectories that came from elsewhere."""
    source_id: str | None = None
    """What the other program calls the run that this came from, such as an evaluation's id."""
    source_uri: str | None = None
    """The file that it was read from."""
    date: str | None = None
    """When the episode began, ISO 8601, as the source has it."""
    agent: str | None = None
    """The agent program around the model, where the source names it."""
    agent_args: Json = {}
    """With what the agent program was started."""
    model_options: Json = {}
    """How the model was sampled: temperature and the like."""
    limit: str | None = None
    """The limit that ended the episode (`messages`, `tokens`, `time`, ...), where one did."""
    metadata: Json = {}
    """What the source held besides, under its own names."""


class Trajectory(TrajectoryHead):
    """A trajectory with its messages and checks, as it lives in memory."""

    messages: tuple[Message, ...] = ()
    checks: tuple[Check, ...] = ()

    def head(self) -> TrajectoryHead:
        """Return the row of the table `trajectories`."""
        return TrajectoryHead(**self.part(TrajectoryHead))

    def message_rows(self) -> list[MessageRow]:
        """Return the rows of the table `messages`, in order."""
        return [
            MessageRow(
                trajectory_id=self.trajectory_id,
                index=index,
                **message.part(Message),
            )
            for index, message in enumerate(self.messages)
        ]

    def check_rows(self) -> list[CheckRow]:
        """Return the rows of the table `checks`."""
        return [
            CheckRow(
                trajectory_id=self.trajectory_id,
                **check.part(Check),
            )
            for check in self.checks
        ]

    def blind(self) -> Trajectory:
        """Return a copy without anything that tells the outcome: what a labeller may see."""
        return self.model_copy(
            update={
                "success": None,
                "reward": None,
                "checks": (),
                "stop": "unknown",
                "fault": None,
                "error": None,
                "limit": None,
                "metadata": {},
                "messages": tuple(
                    message.model_copy(update={"metadata": {}}) if message.metadata else message
                    for message in self.messages
                ),
            }
        )


class Triage(Record):
    """Row of the table `triage`: to whom a trajectory's failure is put down."""

    table: ClassVar[str] = "triage"
    key: ClassVar[tuple[str, ...]] = ("trajectory_id",)

    trajectory_id: str
    target: str
    task_id: str
    outcome: Literal["passed", "failed", "unjudged"]
    fault: Fault | None
    """None exactly for passed trajectories."""
    rule: str
    """The rule that decided, such as `simulator_stopped_first`."""
    evidence: tuple[int, ...] = ()
    """Message indices that show it."""
    detail: str = ""
