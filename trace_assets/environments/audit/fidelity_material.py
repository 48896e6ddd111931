"""What the fidelity checks compare: episodes that the oracle plays, and real ones of the target.

Real material comes with the contract (`TargetContract.reference`): it was read off discovery trajectories.
The oracle is compared with real *successful* trajectories, because both know what to do; and with those that
make the changes the oracle makes, because an environment teaches one capability and not the whole target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

from trace_assets.environments.audit.adversarial import messy
from trace_assets.environments.audit.check import Finding, Subject
from trace_assets.environments.audit.scripted_rollouts import Action
from trace_assets.environments.contract.description import TargetContract
from trace_assets.environments.contract.protocol import SampledEpisode, called_tools
from trace_assets.records import Message, Trajectory

NO_CONTRACT = "no target contract was given to compare with"
NO_REFERENCE = "the contract holds no real episodes to compare with"
MIN_REAL = 8
"""Real successful trajectories that a comparison needs at least."""

Compare = Callable[[Subject, TargetContract], Finding]


def with_reference(check: Compare) -> Callable[[Subject], Finding]:
    """Make a comparison a check that is skipped by name where there is nothing to compare with."""

    @wraps(check)
    def run(subject: Subject) -> Finding:
        if subject.contract is None:
            return Finding("skip", NO_CONTRACT)
        if not subject.contract.reference.episodes:
            return Finding("skip", NO_REFERENCE)
        return check(subject, subject.contract)

    return run


def oracle_episodes(subject: Subject) -> list[Trajectory]:
    """Return the oracle's episodes on the audit's seeds."""
    played = [subject.probe.best(seed) for seed in subject.seeds]
    return [_episode(subject, one.seed, one.first, one.actions, one.answers) for one in played]


def messy_episodes(subject: Subject) -> list[Trajectory]:
    """Return episodes in which everything is called wrongly, on a few seeds."""
    found = []
    for seed in subject.seeds[: subject.sizes.compared]:
        script = messy(subject.probe, seed)
        found.append(_episode(subject, seed, [], script, subject.probe.walk(seed, script)))
    return found


def _episode(
    subject: Subject,
    seed: int,
    first: Sequence[dict[str, Any]],
    actions: Sequence[Action],
    answers: Sequence[dict[str, Any]],
) -> Trajectory:
    messages = [message_of(one) for one in first]
    for action, answer in zip(actions, answers, strict=False):
        messages += [message_of(action), *(message_of(one) for one in answer["messages"])]
    return Trajectory(
        trajectory_id=f"oracle/{seed}",
        task_id=str(seed),
        target=subject.environment.target,
        task_batch="audit",
        policy="oracle",
        success=True,
        messages=tuple(messages),
    )


def message_of(value: dict[str, Any]) -> Message:
    """Return a message of the wire as a record; what records do not know is dropped."""
    known = {name: held for name, held in value.items() if name in Message.model_fields and held is not None}
    return Message.model_validate(known)


@dataclass(frozen=True)
class Focus:
    """What the oracle does in an environment.

    Attributes:
        tools: The tools it calls.
        writes: Those of them that change something, all of them where none does.
        episodes: Its episodes in which one of the changes is made: where the right thing is to refuse in
            words there is no telling which real ones did so for the same reason.
    """

    tools: frozenset[str]
    writes: frozenset[str]
    episodes: tuple[Trajectory, ...]

    @property
    def sequences(self) -> list[tuple[str, ...]]:
        """The calls, episode by episode."""
        return [called_tools(one.messages) for one in self.episodes]


def focus_of(subject: Subject, contract: TargetContract) -> Focus:
    """Return which part of the target the environment is about, as its oracle shows."""
    episodes = oracle_episodes(subject)
    tools = frozenset(name for one in episodes for name in called_tools(one.messages))
    mutates = {tool.name: bool(tool.mutates) for tool in contract.tools}
    writes = frozenset(name for name in tools if mutates.get(name)) or tools
    return Focus(tools, writes, tuple(one for one in episodes if writes & set(called_tools(one.messages))))


def real_sequences(contract: TargetContract, focus: Focus) -> list[tuple[str, ...]]:
    """Return the calls of real successful trajectories in which one of the oracle's changes was made.

    Calls of tools that the oracle has no use for are left out.
    """
    return [
        tuple(name for name in one.tools if name in focus.tools)
        for one in contract.reference.sequences
        if set(one.tools) & focus.writes
        for _ in range(one.n)
    ]


def real_episodes(
    contract: TargetContract, focus: Focus, *, failed_too: bool = False
) -> list[SampledEpisode]:
    """Return sampled episodes in which one of the oracle's changes was made.

    Args:
        contract: With its reference.
        focus: What the oracle does.
        failed_too: Also those that did not succeed: what users and tools said in them is as real.
    """
    judged = any(one.success is not None for one in contract.reference.episodes)
    return [
        one
        for one in contract.reference.episodes
        if (one.success is True or failed_too or not judged)
        and {name for turn in one.turns if turn.role == "assistant" for name in turn.tools} & focus.writes
    ]


def too_few(n: int, focus: Focus, what: str = "real successes") -> Finding:
    """Return the skip for too little real material."""
    names = ", ".join(sorted(focus.writes)) or "any tool"
    return Finding("skip", f"only {n} {what} use {names}, {MIN_REAL} are needed", n=n)
