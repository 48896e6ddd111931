"""A task: one thing an agent is asked to do in a target environment."""

from __future__ import annotations

from typing import ClassVar, Literal

from trace_assets.records.base import Json, Record, Split


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
