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

from trace_assets.errors import InputError
from trace_assets.records import Record, ToolSpec, Trajectory
from trace_assets.synthesis.contract.asking import Asking, askings_of
from trace_assets.synthesis.contract.closings import Closing, closings_of
from trace_assets.synthesis.contract.guards import Guard, guards_of
from trace_assets.synthesis.contract.phrasing import Phrasing, phrasing_of
from trace_assets.synthesis.contract.protocol import (
    LengthStatistics,
    MessageProtocol,
    lengths_of,
    protocol_of,
)
from trace_assets.synthesis.contract.reference import Reference, reference_of
from trace_assets.synthesis.contract.shapes import ResultShape, result_shapes
from trace_assets.synthesis.contract.tool_list import inferred_tools, mutation_marked
from trace_assets.targets.protocol import Target


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
    inferred: tuple[str, ...] = ()
    """Tools whose schema was inferred from calls, because none was given."""
    user_tools: tuple[ToolSpec, ...] = ()
    """Tools of the simulated user, which the agent cannot call."""
    user_results: tuple[ResultShape, ...] = ()
    """What those answer."""
    askings: tuple[Asking, ...] = ()
    """How users word what successful agents then did, in conversations of any length."""
    reference: Reference = Reference()
    """Real material that environments are compared with; no writer needs it."""

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
    name: str,
    tools: Sequence[ToolSpec],
    policy: str,
    trajectories: Sequence[Trajectory],
    *,
    user_tools: Sequence[ToolSpec] = (),
) -> TargetContract:
    """Read a contract off tools, policy text and trajectories: for targets that are not live.

    Args:
        name: The target's name, as in `Trajectory.target`.
        tools: The agent's tools; what is called besides and answers is added, inferred from its calls. Empty:
            all of them are inferred.
        policy: The rules the agent is given; empty takes the system message, where all trajectories have one
            and the same.
        trajectories: As for `extract_contract`.
        user_tools: Tools of the simulated user. Where no user calls one but the agent does, the agent works
            alone and they are its tools too.

    Raises:
        InputError: As `extract_contract`.
    """
    read = _usable(name, trajectories)
    protocol = protocol_of(read)
    own, users = list(tools), list(user_tools)
    called = inferred_tools(read)
    if not protocol.user_calls and {t.name for t in called} & {t.name for t in users} - {t.name for t in own}:
        known = {tool.name for tool in own}
        own, users = own + [tool for tool in users if tool.name not in known], []
    added = [tool for tool in called if tool.name not in {one.name for one in own}]
    guessed = [tool for tool in inferred_tools(read, "user") if tool.name not in {one.name for one in users}]
    own, users = mutation_marked([*own, *added]), mutation_marked([*users, *guessed])
    phrasing = phrasing_of(own, read)
    return TargetContract(
        target=name,
        tools=tuple(own),
        policy=policy or _system_words(read),
        results=tuple(result_shapes(own, read)),
        protocol=protocol,
        lengths=lengths_of(read),
        phrasing=phrasing,
        guards=tuple(guards_of(own, read, phrasing)),
        closings=tuple(closings_of(own, read, phrasing)),
        n_trajectories=len(read),
        inferred=tuple(tool.name for tool in [*added, *guessed]),
        user_tools=tuple(users),
        user_results=tuple(result_shapes(users, read, "user")),
        askings=tuple(askings_of(own, read)),
        reference=reference_of(read),
    )


def _usable(name: str, trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Return the trajectories to read from in an order of their own; refuse what is held out or foreign."""
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
            f"policy out on the discovery tasks, or ingest trajectories of '{name}', first."
        )
    return read


def _order(trajectory: Trajectory) -> tuple[str, int, str]:
    return trajectory.task_id, trajectory.trial, trajectory.trajectory_id


def _system_words(trajectories: Sequence[Trajectory]) -> str:
    """Return the one system message that all trajectories begin with, else nothing."""
    first = {t.messages[0].content or "" if t.messages[0].role == "system" else "" for t in trajectories}
    return first.pop() if len(first) == 1 else ""
