"""What a failed run did beside what it should have done, and what became of it once repaired and replayed."""

from __future__ import annotations

from typing import ClassVar, Literal

from trace_assets.records.base import Json, Record
from trace_assets.records.trajectory import Fault


class ActionDiff(Record):
    """Row of the table `action_diffs`. From the ground truth: never shown to anybody who labels."""

    table: ClassVar[str] = "action_diffs"
    key: ClassVar[tuple[str, ...]] = ("trajectory_id", "number")

    trajectory_id: str
    number: int
    """Counts the rows of a trajectory from 0: missed and altered ones in the expected order, then surplus."""
    target: str
    task_id: str
    policy: str
    """Who acted: a model or program name."""
    kind: Literal["missed", "surplus", "altered"]
    """`missed`: expected and not done; `surplus`: done and not expected; `altered`: with other arguments."""
    tool: str
    expected_arguments: Json = {}
    """Empty for surplus ones."""
    arguments: Json = {}
    """As called; empty for missed ones."""
    changed: tuple[str, ...] = ()
    """Arguments that differ, for altered ones."""
    message: int | None = None
    """Index of the call; null for missed ones."""
    refused: int = 0
    """For missed ones: how often the very call was made and refused by the tool."""


class FailureCause(Record):
    """Row of the table `failure_causes`: one a trajectory that did not pass."""

    table: ClassVar[str] = "failure_causes"
    key: ClassVar[tuple[str, ...]] = ("trajectory_id",)

    trajectory_id: str
    target: str
    task_id: str
    party: Fault
    """Whose repair alone would have made this run pass."""
    decisive_message: int | None = None
    """Index of the message that could not be undone, or that the other side acted on; null where the cause
    is an absence up to the end."""
    capability: str | None = None
    """Capability id of what the agent lacked; null for other parties' faults, and where nothing is known."""
    words: str = ""
    """The cause in one sentence."""
    confidence: Literal["high", "medium", "low"] = "low"
    """`high`: a rule shows another party's fault, or the repaired run passes; `medium`: a kept capability, or
    what a model said of another party; `low`: the rest."""
    source: Literal["rule", "model"] = "rule"
    """Who said it."""
    rule: str = ""
    """What decided: a rule of the triage, or the family of the detector that labelled."""
    repaired: bool | None = None
    """Whether the run passes once this is repaired and the rest replayed; null where that was not tried."""
    suspected: Fault | None = None
    """Who else may have been at fault, by a rule that is too often wrong to decide; null: nobody."""
    suspicion: str = ""
    """That rule, the messages it looked at, and what it saw."""


# A task whose ground truth is doubtful, with the evidence.


Grade = Literal["wrong", "suspected"]


class SuspectTask(Record):
    """Row of the table `suspect_tasks`: one thing that speaks against a task's ground truth."""

    table: ClassVar[str] = "suspect_tasks"
    key: ClassVar[tuple[str, ...]] = ("task_id", "number")

    task_id: str
    number: int
    """Counts what speaks against one task, from 0."""
    target: str
    grade: Grade
    """`wrong`: records or policy say that it asks for what cannot or must not be. `suspected`: nobody passes
    it, or it asks for what it does not grant; it may as well be hard."""
    rule: str
    """The rule that says so."""
    detail: str
    """The evidence in one sentence."""
    places: tuple[int, ...] = ()
    """Which of the expected writes it concerns, counted from 0; empty: all."""
    aside: bool = False
    """Whether its runs are left out of discovery and contrast."""
    n_passed: int = 0
    """Runs of the task that passed: they did what should not be done, or were not asked for it."""
    n_failed: int = 0
    """Runs that failed."""


Luck = Literal["no_write_needed", "against_policy", "another_state"]


class LuckyPass(Record):
    """Row of the table `lucky_passes`: why a passed run says little about what the agent can do."""

    table: ClassVar[str] = "lucky_passes"
    key: ClassVar[tuple[str, ...]] = ("trajectory_id", "kind")

    trajectory_id: str
    target: str
    task_id: str
    policy: str
    """Who acted: a model or program name."""
    kind: Luck
    """`no_write_needed`: whoever does nothing passes; `against_policy`: it passed by or in spite of breaking
    the policy; `another_state`: its changes are not those expected, and the grader does not see it."""
    rule: str = ""
    """The rule of the policy, or what speaks against the task, for `against_policy`."""
    evidence: tuple[int, ...] = ()
    """Message indices that show it."""
    detail: str = ""
    """In one sentence."""
    aside: bool = False
    """Whether it is left out of ER+ and of what follows from it."""


class ToolUse(Record):
    """Row of the table `tool_use`: one tool under one policy in one batch; counts may be added up."""

    table: ClassVar[str] = "tool_use"
    key: ClassVar[tuple[str, ...]] = ("target", "policy", "tool", "task_batch")

    target: str
    policy: str
    """Who acted: a model or program name."""
    tool: str
    task_batch: str
    n_runs: int
    """Runs in which the agent called it."""
    n_calls: int
    """Its calls."""
    n_errors: int
    """Calls that it refused, that failed, or that were never answered."""
    n_unrecovered: int
    """Runs in which it refused and was never called successfully afterwards."""
    n_unrecovered_failed: int
    """Of these, runs that failed."""


RepairStatus = Literal["decisive", "not decisive", "not repairable", "not replayable"]
RepairKind = Literal["insert", "remove", "replace", "go on"]


class Repair(Record):
    """Row of the table `repairs`: one failed run and one capability that it lacks.

    From the ground truth, where the target has one: never shown to anybody who labels.
    """

    table: ClassVar[str] = "repairs"
    key: ClassVar[tuple[str, ...]] = ("capability_id", "trajectory_id")

    trajectory_id: str
    capability_id: str
    target: str
    task_id: str
    status: RepairStatus
    """`decisive`: the repaired run passes; `not decisive`: it fails all the same; `not repairable`: nobody
    can say what to put in its place, or only the agent's own turn could; `not replayable`: its calls, played
    again unchanged, do not give the recorded reward. The last two count in no share."""
    detail: str = ""
    """Why it could not be tried; empty where it was."""
    kind: RepairKind | None = None
    """The greatest thing that was changed; null where nothing was. `go on`: the agent itself went on from the
    repair, or from its turn taken again."""
    change: str = ""
    """What was changed, in words."""
    partial: bool = False
    """Whether more would follow than was replayed: the agent was only shown something, or its last words stay
    as they were. A run that fails all the same says little then."""
    reward_before: float | None = None
    """As recorded, and as the plain replay gave it once more."""
    reward_after: float | None = None
    """Of the repaired run; null where it was not tried."""
    placebo_change: str = ""
    """What was changed instead in the placebos, in words."""
    placebo_rewards: tuple[float, ...] = ()
    """Of runs with a change of the same kind and size that has nothing to do with the capability."""
    placebo_passed: bool | None = None
    """Whether one of these passes; null where no such change was to be had."""


class DecisiveShare(Record):
    """Row of the table `decisive_shares`: how often repairing a capability alone lets a failed run pass."""

    table: ClassVar[str] = "decisive_shares"
    key: ClassVar[tuple[str, ...]] = ("target", "capability_id")

    capability_id: str
    target: str
    share: float | None
    """Decisive repairs among the replayed ones; null where it is not measured."""
    share_low: float | None
    share_high: float | None
    n_replayed: int
    """Failed runs that lack it, were repaired and replayed."""
    n_decisive: int
    """Those of them that pass once repaired."""
    n_tasks: int
    """Tasks behind the intervals: the bootstrap resamples these."""
    placebo: float | None
    """Share of placebo repairs after which the run passes; null where there was none."""
    placebo_low: float | None
    placebo_high: float | None
    n_placebo: int
    """Runs behind `placebo`."""
    n_lacking: int
    """Failed runs that lack it: all that could have been tried."""
    n_not_repairable: int
    n_not_replayable: int
    lower_bound: bool = False
    """Whether repairs of runs that fail all the same were partial: whole ones might let more of them pass."""
    not_measured: str = ""
    """Why there is no share; empty where there is one."""
