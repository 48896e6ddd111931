"""What a generated environment is held to: the target as its trajectories show it, machine-readable.

The contract is all that a writer may know of a target. It holds what an agent sees (tools, policy text, the
shapes of results and errors, how requests and closing words are phrased) and what contrasting successful
trajectories teaches (under which state a write is right, and what is done instead), and never the target's
code, its tasks or their solutions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from statistics import fmean

from trace_assets.errors import InputError
from trace_assets.records import Message, Record, ToolSpec, Trajectory
from trace_assets.synthesis.contract.closings import Closing, closings_of
from trace_assets.synthesis.contract.guards import Guard, guards_of
from trace_assets.synthesis.contract.phrasing import Phrasing, phrasing_of
from trace_assets.synthesis.contract.shapes import ResultShape, result_shapes
from trace_assets.targets.protocol import Target


class MessageProtocol(Record):
    """How a conversation runs."""

    starts_with_system: bool
    """The first message is the policy text, as a system message."""
    ends_with_text: bool
    """Every finished conversation ends with the assistant's words."""
    parallel_calls: int
    """The most tool calls seen in one assistant message."""
    assistant_turns: int
    """The most assistant messages seen in one conversation."""


class LengthStatistics(Record):
    """Means over the trajectories that the contract was read from."""

    request_words: float
    assistant_turns: float
    tool_calls: float
    result_characters: float


class TargetContract(Record):
    """The public face of a target."""

    target: str
    tools: tuple[ToolSpec, ...]
    policy: str
    results: tuple[ResultShape, ...]
    protocol: MessageProtocol
    lengths: LengthStatistics
    phrasing: Phrasing
    guards: tuple[Guard, ...]
    closings: tuple[Closing, ...]
    n_trajectories: int

    def fingerprint(self) -> str:
        """Return a hash of the whole contract."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def tool(self, name: str) -> ToolSpec:
        """Return a tool by name.

        Raises:
            InputError: The target has no such tool.
        """
        for tool in self.tools:
            if tool.name == name:
                return tool
        known = ", ".join(tool.name for tool in self.tools)
        raise InputError(f"target '{self.target}' has no tool '{name}'; it has {known}.")

    def guard(self, tool: str) -> Guard | None:
        """Return how a writing tool is used by agents that succeed, None when not known."""
        return next((guard for guard in self.guards if guard.tool == tool), None)

    def result(self, tool: str) -> ResultShape | None:
        """Return the shape of a tool's results, None when no call of it was seen."""
        return next((shape for shape in self.results if shape.tool == tool), None)

    def closing(self, tool: str) -> Closing | None:
        """Return how conversations end whose last call was this tool, None when not known."""
        return next((closing for closing in self.closings if closing.tool == tool), None)


def extract_contract(target: Target, trajectories: Sequence[Trajectory]) -> TargetContract:
    """Read a target's contract off the target and trajectories of its discovery tasks.

    Args:
        target: Gives the tools and the policy text.
        trajectories: Rollouts on the target, judged where possible; those of other targets or of other
            splits than `discovery` are refused, so that nothing held out can leak into training.

    Returns:
        The contract; the same trajectories in any order give the same one.

    Raises:
        InputError: There are no trajectories, or some are not of the target's discovery split.
    """
    return contract_of(target.name, target.tools, target.policy, trajectories)


def contract_of(
    name: str, tools: Sequence[ToolSpec], policy: str, trajectories: Sequence[Trajectory]
) -> TargetContract:
    """Read a contract off tools, policy text and trajectories: for targets that are not live.

    Raises:
        InputError: As `extract_contract`.
    """
    foreign = sorted({t.trajectory_id for t in trajectories if t.target != name or t.split != "discovery"})
    if foreign:
        raise InputError(
            f"a contract of '{name}' is read from its discovery trajectories only, but {len(foreign)} of "
            f"{len(trajectories)} are not, such as '{foreign[0]}'; leave them out."
        )
    read = sorted((t for t in trajectories if t.fault in (None, "agent") and t.messages), key=_order)
    if not read:
        raise InputError(
            f"there is no usable discovery trajectory of '{name}' to read its contract from; roll the base "
            f"policy out on the discovery tasks first."
        )
    tools = mutation_marked(tools, read)
    phrasing = phrasing_of(tools, read)
    return TargetContract(
        target=name,
        tools=tuple(tools),
        policy=policy,
        results=tuple(result_shapes(tools, read)),
        protocol=_protocol(read),
        lengths=_lengths(read),
        phrasing=phrasing,
        guards=tuple(guards_of(tools, read, phrasing)),
        closings=tuple(closings_of(tools, read, phrasing)),
        n_trajectories=len(read),
    )


def mutation_marked(tools: Sequence[ToolSpec], trajectories: Sequence[Trajectory]) -> list[ToolSpec]:
    """Return the tools with `mutates` filled in by name where the target does not say.

    >>> [t.mutates for t in mutation_marked([ToolSpec(name="get_loan"), ToolSpec(name="renew_loan")], [])]
    [False, True]
    """
    reading = ("get", "find", "list", "search", "check", "calculate", "read", "lookup", "show", "think")
    return [
        tool
        if tool.mutates is not None
        else tool.model_copy(update={"mutates": tool.name.lower().split("_")[0] not in reading})
        for tool in tools
    ]


def _order(trajectory: Trajectory) -> tuple[str, int, str]:
    return trajectory.task_id, trajectory.trial, trajectory.trajectory_id


def _assistant(trajectory: Trajectory) -> list[Message]:
    return [m for m in trajectory.messages if m.role == "assistant" and m.requestor == "assistant"]


def _protocol(trajectories: Sequence[Trajectory]) -> MessageProtocol:
    turns = [_assistant(trajectory) for trajectory in trajectories]
    finished = [t for t in trajectories if t.stop in ("completed", "transferred")]
    return MessageProtocol(
        starts_with_system=all(t.messages[0].role == "system" for t in trajectories),
        ends_with_text=bool(finished)
        and all(t.messages[-1].role == "assistant" and not t.messages[-1].tool_calls for t in finished),
        parallel_calls=max((len(m.tool_calls) for messages in turns for m in messages), default=0),
        assistant_turns=max(len(messages) for messages in turns),
    )


def _lengths(trajectories: Sequence[Trajectory]) -> LengthStatistics:
    results = [len(m.content or "") for t in trajectories for m in t.messages if m.role == "tool"]
    requests = [next((m.content or "" for m in t.messages if m.role == "user"), "") for t in trajectories]
    return LengthStatistics(
        request_words=fmean(len(text.split()) for text in requests),
        assistant_turns=fmean(len(_assistant(t)) for t in trajectories),
        tool_calls=fmean(sum(len(m.tool_calls) for m in _assistant(t)) for t in trajectories),
        result_characters=fmean(results) if results else 0.0,
    )
