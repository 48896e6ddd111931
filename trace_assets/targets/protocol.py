"""What a target environment is: tasks, and episodes in which an agent acts on one of them.

One step is one assistant message: a text, or any number of tool calls. A simulated user lives inside
the environment, so what it says arrives as an observation like a tool's result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from trace_assets.records import CapabilitySpec, Message, Record, Split, Task, ToolSpec, Verdict


class Step(Record):
    """What an environment answers to one assistant message."""

    messages: tuple[Message, ...] = ()
    """Only what is new for the agent: tool results, the user's next words."""
    done: bool = False
    truncated: bool = False
    """Ended by a limit rather than by the agent or its user."""


@runtime_checkable
class Episode(Protocol):
    """One trial of one task. Not shared between tasks or threads; every method is called in order.

    A method raises `trace_assets.errors.TraceError` for faults that are nobody's answer (a sandbox that
    died, a server that is down): the caller records a fault and no reward.
    """

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The tools the agent may call, the same through the whole episode."""
        ...

    async def reset(self) -> Sequence[Message]:
        """Begin, and return the first messages for the agent (system, user)."""
        ...

    async def step(self, message: Message) -> Step:
        """Apply one assistant message. Never called after `done` or `truncated`."""
        ...

    async def verdict(self) -> Verdict:
        """Judge the episode as it stands; called once, at its end."""
        ...

    async def close(self) -> None:
        """Release what the episode holds; called also after a fault, may be called twice."""
        ...


@runtime_checkable
class Target(Protocol):
    """A source of tasks and episodes."""

    @property
    def name(self) -> str:
        """Name of the target, as in `Task.target`."""
        ...

    @property
    def version(self) -> str:
        """Content hash of all that decides tasks, observations and verdicts."""
        ...

    @property
    def policy(self) -> str:
        """The rules the agent is given in words; empty when there are none."""
        ...

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """Every tool an episode can offer."""
        ...

    def tasks(self, split: Split) -> Sequence[Task]:
        """The tasks of one split; splits never share a task or a request text."""
        ...

    def episode(self, task: Task, *, seed: int) -> Episode:
        """Make a fresh episode. `seed` feeds whatever is random beside the task itself."""
        ...


@runtime_checkable
class Solving(Protocol):
    """A target that can solve its own tasks."""

    def oracle(self, task: Task) -> Sequence[Message]:
        """Return messages of an agent that earn success; `InputError` where a task has no solution."""
        ...


@runtime_checkable
class Advising(Protocol):
    """A target whose agent reads advice in words of its own, which end the user's message."""

    def advice(self, spec: CapabilitySpec) -> tuple[str, str]:
        """Return how its agent is told of a capability, and of something else; both empty without words."""
        ...


@runtime_checkable
class Replayable(Protocol):
    """A target that says whether equal calls give equal episodes, at no price."""

    @property
    def not_replayable(self) -> str:
        """Why not, in words; empty where they do. A model that plays the user answers otherwise each time."""
        ...


@runtime_checkable
class Sourced(Protocol):
    """A target that was brought from elsewhere and knows from where."""

    @property
    def provenance(self) -> Mapping[str, str]:
        """Such as commit and data hash; stands on everything that is scored there."""
        ...


def provenance_of(target: Target) -> dict[str, str]:
    """Return where a target comes from, with its version; empty for those that belong to this package."""
    if not isinstance(target, Sourced):
        return {}
    return {"target_version": target.version, **{f"target_{k}": v for k, v in target.provenance.items()}}
