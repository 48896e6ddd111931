"""What a rule looks at, and what it says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from trace_assets.diagnosis.detectors.mutation import mutating_tools
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.expected.diffs import differences, in_deeds
from trace_assets.diagnosis.expected.doubts import Doubt, Doubter
from trace_assets.diagnosis.expected.facts import Facts, Told
from trace_assets.diagnosis.expected.suspects import DOUBTERS, doubts
from trace_assets.records import ActionDiff, ExpectedAction, Fault, Message, Trajectory

CONTROL = re.compile(
    r"#{2,}[\w-]+#{2,}|[\[<(]/?(?:end|stop|done|exit|hang|call(?:er)?\b|user|conversation)[^\])>]{0,30}[\])>]\W*\Z|"
    r"\b(?:TERMINATE|STOP|EXIT|END OF (?:CALL|CONVERSATION|CHAT))\W*\Z"
)
"""Marks by which simulated users end a conversation."""


class Ruling(NamedTuple):
    """What one rule says about a trajectory.

    Attributes:
        fault: To whom the failure is put down.
        rule: The rule's name.
        evidence: Message indices that show it.
        detail: One sentence for a person.
    """

    fault: Fault
    rule: str
    evidence: tuple[int, ...] = ()
    detail: str = ""


@dataclass(frozen=True)
class Known:
    """What is known beside a trajectory itself: its task, and what all runs of its target tell together.

    Attributes:
        tasks: By id.
        writes: By target, the tools that change something.
        doubts: By task id, what speaks against its ground truth.
    """

    tasks: Mapping[str, Told]
    writes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    doubts: Mapping[str, Sequence[Doubt]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        trajectories: Sequence[Trajectory],
        tasks: Mapping[str, Told],
        doubters: Sequence[Doubter] = DOUBTERS,
    ) -> Known:
        """Learn it from trajectories of any targets and their tasks."""
        tasks = {name: in_deeds(one) for name, one in tasks.items()}
        groups: dict[str, list[Trajectory]] = {}
        for one in trajectories:
            groups.setdefault(one.target, []).append(one)
        facts = {target: Facts(own, tasks) for target, own in groups.items()}
        found: dict[str, Sequence[Doubt]] = {}
        for own_facts in facts.values():
            found.update(doubts(own_facts, doubters))
        return cls(tasks, {target: own.writes for target, own in facts.items()}, found)


@dataclass(frozen=True)
class Case:
    """A trajectory that did not pass, as rules see it.

    Attributes:
        trajectory: The whole of it, its verdict and checks too.
        known: What is known beside it.
    """

    trajectory: Trajectory
    known: Known

    @cached_property
    def transcript(self) -> Transcript:
        """Calls with their results, and what detectors ask of messages."""
        return Transcript(self.trajectory)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation."""
        return self.trajectory.messages

    @property
    def task(self) -> Told | None:
        """Its task, where it is known."""
        return self.known.tasks.get(self.trajectory.task_id)

    @property
    def instruction(self) -> str:
        """What the simulated user was told; empty when not known."""
        return self.task.instruction if self.task else ""

    @cached_property
    def simulated(self) -> bool:
        """Whether a program played the user: the source says so, or its marks stand in what it said."""
        return self.trajectory.user_policy is not None or any(
            one.role == "user" and one.content and CONTROL.search(one.content) for one in self.messages
        )

    @cached_property
    def writes(self) -> frozenset[str]:
        """Tools that change something, expected ones among them."""
        known = self.known.writes.get(self.trajectory.target)
        names = {action.name for action in self.expected}
        return known if known is not None else mutating_tools([self.transcript], names=names)

    @cached_property
    def given(self) -> frozenset[str]:
        """Names of the tools that the agent was given; empty where the log does not list them."""
        listed = self.trajectory.metadata.get("tools")
        own = [one.get("function", one) for one in listed or () if isinstance(one, dict)]
        return frozenset(str(one["name"]) for one in own if isinstance(one, dict) and one.get("name"))

    def writes_of(self, names: Iterable[str]) -> frozenset[str]:
        """Return the tools that change something, when these names are among those to judge."""
        known = self.known.writes.get(self.trajectory.target, frozenset())
        return known | mutating_tools([self.transcript], names=names)

    @cached_property
    def expected(self) -> tuple[ExpectedAction, ...]:
        """What the ground truth holds; empty too where nothing is known of it."""
        return self.task.expected_actions if self.task else ()

    @cached_property
    def expected_writes(self) -> list[ExpectedAction]:
        """Those of them that change something."""
        return [action for action in self.expected if action.name in self.writes]

    @cached_property
    def diffs(self) -> list[ActionDiff] | None:
        """How the run differs from what is expected; None where that is not known."""
        if self.task is None or not self.task.has_expected:
            return None
        return differences(self.trajectory, self.transcript, self.expected, self.writes)

    @property
    def doubts(self) -> Sequence[Doubt]:
        """What speaks against the task's ground truth."""
        return self.known.doubts.get(self.trajectory.task_id, ())


Rule = Callable[[Case], Ruling | None]
"""Says whose fault it is, or None when it has nothing to say."""
