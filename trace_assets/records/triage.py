"""What a failed run should have done and did: one write that is missing, too much, or other than expected."""

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
