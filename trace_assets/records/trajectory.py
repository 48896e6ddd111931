"""A trajectory: everything one agent did on one trial of one task, and how it was judged."""

from __future__ import annotations

from typing import ClassVar, Literal

from trace_assets.records.base import Int64, Json, Record, Split

# Messages and tools, in the OpenAI chat form that agents, servers and logs already speak.


Role = Literal["system", "user", "assistant", "tool"]


class ToolSpec(Record):
    """A tool the agent may call."""

    name: str
    description: str = ""
    parameters: Json = {}
    """JSON schema of the arguments (an `object` schema)."""
    mutates: bool | None = None
    """Whether a call changes the environment's state; None when not known."""

    def openai(self) -> dict[str, object]:
        """Return the tool in OpenAI function form."""
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": self.parameters},
        }


class ToolCall(Record):
    """One call of a tool inside an assistant (or simulated user's) message."""

    id: str
    name: str
    arguments: Json = {}


class Message(Record):
    """One turn of a conversation."""

    role: Role
    content: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    """For `tool` messages: the call that this answers."""
    tool_name: str | None = None
    """For `tool` messages: the tool that was called."""
    is_error: bool = False
    """For `tool` messages: the tool refused or failed."""
    requestor: Literal["assistant", "user"] = "assistant"
    """Who called the tool (a simulated user may have tools of its own)."""
    metadata: Json = {}
    """What the source held besides: reasoning, parts that are not text, the tokens generated for an empty
    message. Exporters read it, and rules on faults; labellers never do."""


class MessageRow(Message):
    """A message in its place: row of the table `messages`."""

    table: ClassVar[str] = "messages"
    key: ClassVar[tuple[str, ...]] = ("trajectory_id", "index")

    trajectory_id: str
    index: int
    """Position in the trajectory, from 0; evidence refers to it."""


# How an episode was judged: named checks, a reward, success.


CheckKind = Literal["state", "action", "communicate", "judge", "milestone", "minefield", "protocol"]

Stop = Literal[
    "completed",  # the agent or its user ended the conversation
    "transferred",  # handed to a person
    "max_turns",
    "context_overflow",
    "agent_error",  # the agent's output could not be used
    "user_error",  # the user simulator failed
    "environment_error",  # the target failed
    "infrastructure_error",  # server, network, sandbox: nobody's answer
    "unknown",
]


class Check(Record):
    """One thing the grader looked at."""

    name: str
    kind: CheckKind
    passed: bool | None
    """None: the check did not run, so success may not be claimed."""
    score: float | None = None
    gates: bool = True
    """Whether success requires this check."""
    detail: str = ""


class CheckRow(Check):
    """Row of the table `checks`."""

    table: ClassVar[str] = "checks"
    key: ClassVar[tuple[str, ...]] = ("trajectory_id", "name")

    trajectory_id: str


class Verdict(Record):
    """What an episode earned."""

    reward: float | None
    """Finite; None when nothing may be said (a fault, a judge that did not run)."""
    success: bool | None
    checks: tuple[Check, ...] = ()


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
    """The rule that decided, such as `missing_prerequisite`."""
    evidence: tuple[int, ...] = ()
    """Message indices that show it."""
    detail: str = ""
    suspected: Fault | None = None
    """Of what is left to the agent: who else may have been at fault. It decides nothing."""
    suspicion: str = ""
    """The rule that suspects it, the messages it looked at, and what it saw."""
    policy: str = ""
    """Who played: the policy, and the adapter where one was applied (`policy + adapter`)."""


# A task: one thing an agent is asked to do in a target environment.


class ExpectedAction(Record):
    """One call that a task's ground truth holds: what its grader would have wanted done."""

    name: str
    """Tool."""
    arguments: Json = {}
    requestor: Literal["assistant", "user"] = "assistant"
    """Who should call it."""
    compared: tuple[str, ...] | None = None
    """Arguments that the grader looks at; None: all of them."""


class Task(Record):
    """Row of the table `tasks`."""

    table: ClassVar[str] = "tasks"
    key: ClassVar[tuple[str, ...]] = ("task_id",)

    task_id: str
    """Unique over all targets, such as `embedded/000123` or `tau2:airline/13`."""
    target: str
    """Environment the task lives in; diagnosis never mixes targets."""
    split: Split = "discovery"
    task_batch: str
    """Partition in which the task arrived."""
    instruction: str = ""
    """What is asked, as the agent or its simulated user reads it; empty when not known."""
    tags: tuple[str, ...] = ()
    """Labels for reports only, such as the skill a generator planted. Diagnosis must not read them."""
    payload: Json = {}
    """What the target needs to build the episode, such as a seed. Never shown to the agent."""
    has_expected: bool = False
    """Whether the source says what should be done; with no expected actions then: nothing."""
    expected_actions: tuple[ExpectedAction, ...] = ()
    """The ground truth's calls, in order. Never shown to the agent, nor to anybody who labels."""
    expected_outputs: tuple[str, ...] = ()
    """What the agent should tell the user. Never shown either."""
    domain_policy: str = ""
    """The rules of the domain that the source records beside its transcripts; empty where it has none, or
    where they stand in the transcript itself. The agent need not have been shown these very words."""


class ToldTask(Record):
    """Row of the table `told_tasks`: what a batch's own file says of a task that another batch brought first.

    A task is in the table `tasks` once, with the batch that brought it. What the simulated user was told in
    another batch's episodes stands in that batch's file: kept here, so that nobody looks at all batches.
    """

    table: ClassVar[str] = "told_tasks"
    key: ClassVar[tuple[str, ...]] = ("task_id",)

    task_id: str
    instruction: str = ""
    """As in `Task`, and so are the others."""
    has_expected: bool = False
    expected_actions: tuple[ExpectedAction, ...] = ()
    expected_outputs: tuple[str, ...] = ()
    domain_policy: str = ""
