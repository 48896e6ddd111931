"""What a rule looks at, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.records import Fault, Message, Trajectory


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
class Case:
    """A trajectory that did not pass, as rules see it.

    Attributes:
        trajectory: The whole of it, its verdict and checks too.
        instruction: What the simulated user was told; empty when not known.
    """

    trajectory: Trajectory
    instruction: str = ""

    @cached_property
    def transcript(self) -> Transcript:
        """Calls with their results, and what detectors ask of messages."""
        return Transcript(self.trajectory)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation."""
        return self.trajectory.messages

    @property
    def simulated(self) -> bool:
        """Whether a program played the user."""
        return self.trajectory.user_policy is not None


Rule = Callable[[Case], Ruling | None]
"""Says whose fault it is, or None when it has nothing to say."""
