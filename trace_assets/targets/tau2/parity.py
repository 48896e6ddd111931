"""The same tasks by our runner and by `tau2 run`: what is the same, what is not, and who began it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from trace_assets.records import Message, Record, Trajectory
from trace_assets.stats.intervals import wilson
from trace_assets.stats.paired import compare
from trace_assets.targets.tau2.official import OfficialMessage, OfficialSimulation

DONE = "done"
"""The call by which a solo agent ends; tau2 records the word instead of the call."""
STOP = "###STOP###"
State = Literal["equal", "differs", "not_compared"]
WHO = {"assistant": "the agent", "user": "the simulated user", "tool": "the environment"}


@dataclass(frozen=True)
class Turn:
    """A message as both sides know it: ids, costs and clocks are each side's own.

    Attributes:
        role: assistant, user or tool.
        text: What was said or returned, without white space around it.
        calls: Names and arguments of tool calls.
        error: Whether a tool refused.
    """

    role: str
    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    error: bool = False

    def __str__(self) -> str:
        said = [f"{name}({arguments})" for name, arguments in self.calls]
        words = "; ".join([*([self.text] if self.text else []), *said])
        return words if len(words) <= 160 else f"{words[:157]}..."


def our_turns(messages: Iterable[Message], *, solo: bool) -> list[Turn]:
    """Return a trajectory's messages as turns, from the agent's greeting on."""
    turns: list[Turn] = []
    for message in messages:
        if message.role == "system":
            continue
        calls = tuple((call.name, _plain(call.arguments)) for call in message.tool_calls)
        if solo and any(name == DONE for name, _ in calls):
            return [*turns, Turn("assistant", STOP)]
        turns.append(Turn(message.role, (message.content or "").strip(), calls, message.is_error))
    return turns


def official_turns(messages: Iterable[OfficialMessage]) -> list[Turn]:
    """Return a simulation's messages as turns, as far as the agent sees them."""
    turns: list[Turn] = []
    for message in messages:
        hidden = message.requestor == "user" or (message.role == "user" and message.tool_calls)
        if message.role == "system" or hidden:
            continue
        calls = tuple((call.name, _plain(call.arguments)) for call in message.tool_calls or ())
        turns.append(Turn(message.role, (message.content or "").strip(), calls, message.error))
    return turns


def _plain(arguments: object) -> str:
    return json.dumps(arguments, sort_keys=True, ensure_ascii=False)


def first_difference(ours: Sequence[Turn], theirs: Sequence[Turn]) -> str:
    """Say where two conversations part and whose message it was; empty where they are the same."""
    for number, (here, there) in enumerate(zip(ours, theirs, strict=False), start=1):
        if here == there:
            continue
        if here.role != there.role:
            return (
                f"message {number} is {_whose(here)} here ({here}) and {_whose(there)} in tau2 run ({there})"
            )
        return f"message {number}, {_whose(here)}: {here} here, {there} in tau2 run"
    if len(ours) == len(theirs):
        return ""
    longer, where = (ours, "here") if len(ours) > len(theirs) else (theirs, "in tau2 run")
    number = min(len(ours), len(theirs))
    return f"only {where} the conversation goes on after message {number}, with {_whose(longer[number])}"


def _whose(turn: Turn) -> str:
    return f"{WHO.get(turn.role, turn.role)}'s"


class ParityPair(Record):
    """One conversation, played twice."""

    task_id: str
    """As tau2 names it."""
    trial: int
    state: State
    ours: float | None
    """Reward by our runner, None where the episode broke or needs a judge."""
    official: float | None
    """Reward by `tau2 run`, None where it gave up."""
    our_end: str
    official_end: str
    same_conversation: bool
    difference: str = ""
    """Where the conversations part, or that the same conversation was judged differently."""


class ParityReport(Record):
    """What came of a comparison: the file `parity.json`."""

    target: str
    provenance: dict[str, str]
    agent: str
    user: str
    temperature: float
    max_tokens: int
    seed: int
    trials: int
    max_steps: int
    left_out: tuple[str, ...] = ()
    """Tasks that were not played: a language model judges them, and `judge` is off."""
    n: int
    """Conversations whose rewards could be compared."""
    n_tasks: int
    equal: int
    equal_low: float
    equal_high: float
    """Wilson's interval of the share of equal rewards."""
    same_conversations: int
    ours: float | None
    ours_low: float | None
    ours_high: float | None
    official: float | None
    official_low: float | None
    official_high: float | None
    difference: float | None
    """Share of passed conversations by our runner less that of `tau2 run`, on the same tasks."""
    difference_low: float | None
    difference_high: float | None
    """95 % interval, tasks resampled as a whole; None where it rests on one task."""
    pairs: tuple[ParityPair, ...]


def pair(ours: Trajectory, official: OfficialSimulation, *, task_id: str, solo: bool) -> ParityPair:
    """Hold a conversation of ours against tau2's."""
    difference = first_difference(our_turns(ours.messages, solo=solo), official_turns(official.messages))
    same = not difference
    state: State = "equal" if ours.reward == official.reward else "differs"
    if ours.reward is None or official.reward is None:
        state = "not_compared"
        difference = "; ".join(
            filter(
                None,
                (
                    f"broke here: {ours.error or 'a part of it needs a judge'}"
                    if ours.reward is None
                    else "",
                    f"tau2 run gave up: {official.error}" if official.reward is None else "",
                ),
            )
        )
    elif state == "differs" and same:
        difference = "the same conversation was judged differently"
    return ParityPair(
        task_id=task_id,
        trial=ours.trial,
        state=state,
        ours=ours.reward,
        official=official.reward,
        our_end=ours.stop,
        official_end=official.termination_reason,
        same_conversation=same,
        difference=difference,
    )


def figures(pairs: Sequence[ParityPair]) -> Mapping[str, float | int | None]:
    """Return what a report says in numbers: counts, rates and the paired difference, with intervals."""
    judged = [one for one in pairs if one.state != "not_compared"]
    tasks = sorted({one.task_id for one in judged})
    place = {name: index for index, name in enumerate(tasks)}
    passed = np.zeros((3, len(tasks)), dtype=np.int64)
    for one in judged:
        column = place[one.task_id]
        passed[:, column] += ((one.ours or 0.0) >= 1.0, (one.official or 0.0) >= 1.0, 1)
    compared = compare(passed[0], passed[2], passed[1], passed[2])
    equal = sum(one.state == "equal" for one in judged)
    low, high = wilson(equal, len(judged))
    return {
        "n": len(judged),
        "n_tasks": len(tasks),
        "equal": equal,
        "equal_low": low,
        "equal_high": high,
        "same_conversations": sum(one.same_conversation for one in pairs),
        "ours": compared.arm.value,
        "ours_low": compared.arm.low,
        "ours_high": compared.arm.high,
        "official": compared.base.value,
        "official_low": compared.base.low,
        "official_high": compared.base.high,
        "difference": compared.delta.value,
        "difference_low": compared.delta.low,
        "difference_high": compared.delta.high,
    }
