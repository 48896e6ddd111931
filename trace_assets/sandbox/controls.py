"""Negative controls: episodes made from those that are paid for, which an honest environment would not pay.

An audit asks what agents without the capability earn; these ask again while the environment is used, of the
very seeds that are trained on and with the policy's own words. An environment that had found a way to know an
audit would be convicted by the episodes that it pays for.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Action = dict[str, Any]
Solve = Callable[[], Sequence[Action]]


@dataclass(frozen=True)
class Control:
    """A kind of control episode.

    Attributes:
        name: What such an agent does, after "an agent that".
        of_paid: Made of the episodes that succeeded alone; else of all.
        most: The share of them that may succeed, by what an audit lets pass.
        make: Its messages, from those of the episode and from what solves the seed; None where this would be
            no control.
    """

    name: str
    of_paid: bool
    most: float
    make: Callable[[Sequence[Action], Solve], list[Action] | None]


def _nothing(actions: Sequence[Action], solve: Solve) -> list[Action] | None:
    return []


def _words(actions: Sequence[Action], solve: Solve) -> list[Action] | None:
    if not any(action.get("tool_calls") for action in actions):
        return None
    return [
        {"role": "assistant", "content": action["content"]} for action in actions if action.get("content")
    ]


IDLE = Control("does nothing", False, 0.25, _nothing)
TALKER = Control("says what the policy said and calls no tool", True, 0.6, _words)


def controls_for(changes: Callable[[str], bool]) -> tuple[Control, ...]:
    """Return the controls of an environment.

    Args:
        changes: Whether a tool of this name changes anything.
    """

    def _unchanged(actions: Sequence[Action], solve: Solve) -> list[Action] | None:
        if not _with(changes, actions) or not _with(changes, solve()):
            return None  # there was nothing to leave out, or nothing had to be changed
        left = []
        for action in actions:
            calls = [call for call in action.get("tool_calls") or () if not changes(call["name"])]
            if calls or action.get("content"):
                left.append({**action, "tool_calls": calls})
        return left

    return (IDLE, TALKER, Control("leaves out every change that the policy made", True, 0.25, _unchanged))


def _with(changes: Callable[[str], bool], actions: Sequence[Action]) -> bool:
    return any(changes(call["name"]) for action in actions for call in action.get("tool_calls") or ())


# A few of many, each as likely as any other, without keeping the many.


T = TypeVar("T")


class Reservoir(Generic[T]):
    """Keeps a sample of fixed size of what it is shown (Vitter, Random Sampling with a Reservoir, 1985).

    Drawn from the system's randomness, so that nobody can foretell what is kept.

    Args:
        size: The most that are kept.

    >>> few = Reservoir[int](3)
    >>> for number in range(100):
    ...     few.see(number)
    >>> len(few.kept), few.seen
    (3, 100)
    """

    def __init__(self, size: int) -> None:
        self.size, self.seen = size, 0
        self.kept: list[T] = []
        self._chance = random.SystemRandom()

    def see(self, one: T) -> None:
        """Look at one more."""
        self.seen += 1
        if len(self.kept) < self.size:
            self.kept.append(one)
        elif (place := self._chance.randrange(self.seen)) < self.size:
            self.kept[place] = one
