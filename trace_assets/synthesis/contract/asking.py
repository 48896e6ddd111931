"""How users of real conversations word what an agent then does for them.

A request of a simulated or human user is spread over several messages and worded freely, so no two are alike.
What can be read off is the message in which the values of a successful change were first named.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from trace_assets.diagnosis.detectors.values import leaves
from trace_assets.records import Record, ToolCall, ToolSpec, Trajectory
from trace_assets.synthesis.contract.answers import Side, answered_calls
from trace_assets.synthesis.contract.slots import names

MAX_WORDINGS = 12
MAX_CHARACTERS = 400


class Asking(Record):
    """The words in which users asked for what one tool then did."""

    tool: str
    wordings: tuple[str, ...]
    """Messages with the call's arguments as `{argument}`, the shortest first."""
    n: int
    """Changes in successful trajectories that a message could be found for."""


def askings_of(tools: Sequence[ToolSpec], trajectories: Sequence[Trajectory]) -> list[Asking]:
    """Return how each writing tool is asked for.

    Args:
        tools: With `mutates` known.
        trajectories: Only successful ones count, all of them where nothing is judged.
    """
    judged = any(t.success is not None for t in trajectories)
    writing = {tool.name for tool in tools if tool.mutates}
    found: dict[str, list[str]] = defaultdict(list)
    for trajectory in trajectories:
        if trajectory.success is not True and judged:
            continue
        words = _words_before(trajectory, "assistant")
        for call, _, is_error in answered_calls(trajectory):
            if call.name in writing and not is_error:
                said = _wording(call, words.get(call.id, ()))
                if said:
                    found[call.name].append(said)
    return [
        Asking(
            tool=name,
            wordings=tuple(sorted(set(texts), key=lambda t: (len(t), t))[:MAX_WORDINGS]),
            n=len(texts),
        )
        for name, texts in sorted(found.items())
    ]


def _words_before(trajectory: Trajectory, by: Side) -> dict[str, tuple[str, ...]]:
    """Return call id -> the user's messages before the call."""
    said: list[str] = []
    before: dict[str, tuple[str, ...]] = {}
    for message in trajectory.messages:
        if message.role == "user" and message.content:
            said.append(message.content)
        elif message.role == by:
            before.update((call.id, tuple(said)) for call in message.tool_calls)
    return before


def _wording(call: ToolCall, said: Sequence[str]) -> str:
    """Return the message that names most of a call's values first, slots filled in, empty where none does."""
    values = sorted(
        {
            (value, path.rpartition(".")[2])
            for path, value in leaves(call.arguments)
            if isinstance(value, str)
        },
        key=lambda item: (-len(item[0]), item),
    )
    values = [(value, name) for value, name in values if len(value) > 1]
    best, most = "", 0
    for text in said:
        if set("{}") & set(text) or len(text) > MAX_CHARACTERS:
            continue
        named = [(value, name) for value, name in values if names(value, text)]
        if len(named) > most:
            most, best = len(named), _slotted(text, named)
    return best


def _slotted(text: str, named: Sequence[tuple[str, str]]) -> str:
    """Put slots in the place of values, the longest first; a second value of a name becomes `{name2}`."""
    slots: dict[str, int] = defaultdict(int)
    for value, name in named:
        if value in text:
            slots[name] += 1
            text = text.replace(value, "{" + name + (str(slots[name]) if slots[name] > 1 else "") + "}")
    return text
