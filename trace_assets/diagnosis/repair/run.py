"""A failed run as repairs see it, and changes to the agent's turns of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trace_assets.diagnosis.detectors.identity import looks_like_id, normal
from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.values import leaves
from trace_assets.errors import Unavailable
from trace_assets.records import Message, Task, ToolCall, ToolSpec, Trajectory
from trace_assets.records.triage import RepairKind
from trace_assets.targets.protocol import Solving, Target

FORFEITED = frozenset({"context_overflow", "agent_error"})
"""Ends in which the last message never reached the target, and the run was forfeited by it."""


@dataclass(frozen=True)
class Expected:
    """What a target would have wanted done.

    Attributes:
        calls: The agent's calls, in order.
        closing: What the agent would say at the end; None where the target does not say.
    """

    calls: tuple[ToolCall, ...]
    closing: str | None = None


def expected_of(target: Target, task: Task) -> Expected | None:
    """Return what a target wants done in a task: the task's expected actions, or the target's own solution.

    None where it says neither.

    Raises:
        Unavailable: The target cannot be asked now.
    """
    if task.has_expected:
        own = [one for one in task.expected_actions if one.requestor == "assistant"]
        return Expected(tuple(ToolCall(id="", name=one.name, arguments=one.arguments) for one in own))
    if not isinstance(target, Solving):
        return None
    try:
        solution = target.oracle(task)
    except Unavailable:
        raise
    except Exception:  # a module has none, or none for this task: then nothing is known, which is no fault
        return None
    calls = tuple(call for message in solution for call in message.tool_calls)
    last = solution[-1] if solution else None
    return Expected(calls, last.content if last is not None and not last.tool_calls else None)


@dataclass(frozen=True)
class Change:
    """One change to the agent's turns.

    Attributes:
        kind: What is done.
        at: Index of the message before which calls are put in, or whose call is removed or replaced.
        calls: The calls put in, or put in the place of another; one turn each where they are put in.
        position: Which call of the message; None for the whole message.
    """

    kind: RepairKind
    at: int
    calls: tuple[ToolCall, ...] = ()
    position: int | None = None


@dataclass(frozen=True)
class Plan:
    """How a run is changed.

    Attributes:
        changes: To its calls.
        words: The same in words.
        closing: Whether the agent's last words are those of the target's own solution.
        looks_only: Whether only looks are put in, and what the agent would have made of them is not known.
        late: The same change where it comes too late to matter, for a placebo.
    """

    changes: tuple[Change, ...]
    words: str
    closing: bool = False
    looks_only: bool = False
    late: tuple[Change, ...] = ()

    @property
    def kind(self) -> RepairKind:
        """The greatest thing that is done."""
        kinds = {change.kind for change in self.changes}
        order: tuple[RepairKind, ...] = ("replace", "remove", "insert")
        return next(kind for kind in order if kind in kinds)

    @property
    def size(self) -> int:
        """How many calls are changed."""
        return sum(max(1, len(change.calls)) for change in self.changes)


class Run:
    """A failed run: its calls with their places, and what the target expected of it.

    Args:
        trajectory: The run.
        expected: What should have been done, None where nobody says.
        writes: Names of the tools that change something.
        tools: The target's tools.
    """

    def __init__(
        self,
        trajectory: Trajectory,
        expected: Expected | None,
        writes: frozenset[str],
        tools: Sequence[ToolSpec] = (),
    ) -> None:
        self.trajectory, self.expected, self.writes = trajectory, expected, writes
        self.transcript = Transcript(trajectory)
        self._tools = {tool.name: tool for tool in tools}

    @cached_property
    def own(self) -> list[Step]:
        """The agent's calls, in order."""
        return [step for step in self.transcript.steps if not step.by_user]

    @cached_property
    def _positions(self) -> dict[int, int]:
        """Place of each call among those of its message, by the identity of its step."""
        seen: dict[int, int] = defaultdict(int)
        places: dict[int, int] = {}
        for step in self.transcript.steps:
            places[id(step)] = seen[step.index]
            seen[step.index] += 1
        return places

    @property
    def forfeited(self) -> bool:
        """Whether its last message could not be used."""
        return self.trajectory.stop in FORFEITED

    @property
    def end(self) -> int:
        """Index before which the agent's closing words stand; the number of messages where it has none."""
        last = self.transcript.last_of_agent()
        message = self.trajectory.messages[last] if self.trajectory.messages else None
        closes = message is not None and message.role == "assistant" and not message.tool_calls
        return last if closes else len(self.trajectory.messages)

    def put_in(self, calls: Iterable[ToolCall], before: int) -> Change:
        """Return that calls are put in before a message."""
        return Change("insert", before, tuple(calls))

    def take_out(self, step: Step) -> Change:
        """Return that a call is removed."""
        return Change("remove", step.index, position=self._positions[id(step)])

    def exchange(self, step: Step, calls: Iterable[ToolCall]) -> Change:
        """Return that a call is replaced; by none at all, it is removed."""
        new = tuple(calls)
        return Change("replace" if new else "remove", step.index, new, self._positions[id(step)])

    def look(self, tool: str, argument: str, value: Any) -> ToolCall | None:
        """Return the call of a tool on one object; None where it asks for more than the object's name."""
        spec = self._tools.get(tool)
        if spec is not None:
            properties = spec.parameters.get("properties") or {}
            needed = list(spec.parameters.get("required") or properties)
        else:
            needed = next((list(step.arguments) for step in self.own if step.tool == tool), [argument])
        if needed and needed != [argument]:
            if len(needed) != 1:
                return None
            argument = needed[0]
        return ToolCall(id="", name=tool, arguments={argument: value} if needed else {})

    def is_write(self, name: str) -> bool:
        """Whether a tool changes something."""
        return name in self.writes

    def wanted(
        self,
        *,
        tool: str | None = None,
        objects: frozenset[str] | None = None,
        writes: bool = False,
        missing: bool = True,
    ) -> list[ToolCall]:
        """Return expected calls, by default those that were not made.

        Args:
            tool: Of this tool alone.
            objects: That name one of these objects.
            writes: Only those that change something.
            missing: Leave out those that the run made successfully, each as often as it made them.
        """
        made = [(step.tool, _same(step.arguments)) for step in self.own if not step.failed]
        found = []
        for call in self.expected.calls if self.expected is not None else ():
            key = (call.name, _same(call.arguments))
            if missing and key in made:
                made.remove(key)
                continue
            if tool is not None and call.name != tool:
                continue
            if writes and not self.is_write(call.name):
                continue
            if objects is None or not objects_of(call.arguments).isdisjoint(objects):
                found.append(call)
        return found

    def is_partial(self, plan: Plan) -> bool:
        """Whether more would follow from a change than is replayed."""
        no_words = self.expected is None or self.expected.closing is None
        return plan.looks_only or (plan.closing and no_words)

    def turns(self, plan: Plan | None = None) -> list[Message]:
        """Return the agent's turns as they reach the target, changed as planned."""
        changes = plan.changes if plan is not None else ()
        turns = list(_changed(self.trajectory.messages, changes))
        if self.forfeited:  # its last message was never heard, and the forfeit stays
            return turns[:-1] if turns else turns
        closing = self.expected.closing if self.expected is not None and plan and plan.closing else None
        if closing is not None:
            if turns and not turns[-1].tool_calls:
                turns.pop()
            turns.append(Message(role="assistant", content=closing))
        return turns


def _changed(messages: Sequence[Message], changes: Sequence[Change]) -> Iterator[Message]:
    put_in: dict[int, list[ToolCall]] = defaultdict(list)
    edits: dict[int, list[Change]] = defaultdict(list)
    for change in changes:
        if change.kind == "insert":
            put_in[change.at] += change.calls
        else:
            edits[change.at].append(change)
    number = 0
    for index in range(len(messages) + 1):
        for call in put_in[index]:
            number += 1
            new = call.model_copy(update={"id": f"repair_{number}"})
            yield Message(role="assistant", tool_calls=(new,))
        if index == len(messages) or messages[index].role != "assistant":
            continue
        message = messages[index]
        if not edits[index]:
            yield message
            continue
        calls: list[ToolCall] = []
        by_position = {change.position: change for change in edits[index]}
        for position, call in enumerate(message.tool_calls):
            edit = by_position.get(position, by_position.get(None))
            if edit is None:
                calls.append(call)
            for new in edit.calls if edit is not None else ():
                number += 1
                calls.append(new.model_copy(update={"id": f"repair_{number}"}))
        if calls:  # words that went with a removed call are not an answer of their own
            yield message.model_copy(update={"tool_calls": tuple(calls)})


def objects_of(arguments: Mapping[str, Any]) -> frozenset[str]:
    """Return the normalised values of arguments that look like identifiers.

    >>> sorted(objects_of({"order": "K48", "item": "lamp"}))
    ['k48']
    """
    return frozenset(normal(value) for _, value in leaves(arguments) if looks_like_id(value))


def in_words(calls: Iterable[ToolCall]) -> str:
    """Write calls as people do.

    >>> in_words([ToolCall(id="", name="get_order", arguments={"order": "K48"})])
    'get_order(order=K48)'
    """
    return ", ".join(
        f"{call.name}({', '.join(f'{name}={value}' for name, value in call.arguments.items())})"
        for call in calls
    )


def call_of(step: Step) -> ToolCall:
    """Return the call that a step made."""
    return ToolCall(id="", name=step.tool, arguments=dict(step.arguments))


def _same(arguments: Mapping[str, Any]) -> str:
    return repr(sorted(arguments.items(), key=str))
