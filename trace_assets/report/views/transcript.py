"""A conversation as the page shows it: the labelled messages with what is around them, bounded in size."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from trace_assets.records import MessageRow, ToolCall

MOST_CHARACTERS = 600
"""Of a message, of a tool's answer and of a call's arguments; what is left out is counted."""
MOST_CHARACTERS_SHOWN = 2_400
"""The same for a message that led to the label."""
MOST_TURNS = 24
"""Longer transcripts show beginning, end and what is around the evidence; the gaps are counted."""
MOST_EVIDENCE = 40
"""Labelled messages of one transcript that are sought out; the first ones."""


def transcript(
    messages: Sequence[MessageRow], evidence: Sequence[int], anchor: str = ""
) -> list[dict[str, Any]]:
    """Return the turns to show, evidence always among them; left-out turns are counted.

    Args:
        messages: Of one trajectory, in order.
        evidence: Indices of the messages that led to the label.
        anchor: What the ids of labelled messages begin with.
    """
    indices = [message.index for message in messages]
    labelled = sorted(set(evidence) & set(indices))[:MOST_EVIDENCE]
    if len(messages) <= MOST_TURNS:
        keep = set(indices)
    else:
        keep = {*indices[:4], *indices[-3:]}
        for index in labelled:
            around = {place for place in range(index - 2, index + 3) if place in set(indices)}
            if len(keep | around) > 2 * MOST_TURNS:
                around = {index}
            keep |= around
    turns: list[dict[str, Any]] = []
    skipped: list[int] = []
    for message in messages:
        if message.index not in keep:
            skipped.append(message.index)
            continue
        _tell_gap(turns, skipped, evidence)
        turns.append(_turn(message, message.index in evidence, anchor))
    _tell_gap(turns, skipped, evidence)
    return turns


def message_anchor(anchor: str, index: int) -> str:
    """Return the id of a labelled message on the page."""
    return f"{anchor}-m{index}"


def _tell_gap(turns: list[dict[str, Any]], skipped: list[int], evidence: Collection[int]) -> None:
    if skipped:
        labelled = sum(index in evidence for index in skipped)
        turns.append({"skipped": len(skipped), "labelled": labelled})
        skipped.clear()


def _turn(message: MessageRow, shows: bool, anchor: str) -> dict[str, Any]:
    most = MOST_CHARACTERS_SHOWN if shows else MOST_CHARACTERS
    text = (message.content or "").strip()
    if message.role == "tool":
        text = _laid_out(text)
    return {
        "index": message.index,
        "anchor": message_anchor(anchor, message.index) if shows else "",
        "who": _who(message),
        "text": text[:most],
        "cut": max(0, len(text) - most),
        "tool": message.role == "tool",
        "calls": [_call(call, most) for call in message.tool_calls],
        "shows": shows,
        "error": message.is_error,
    }


def _who(message: MessageRow) -> str:
    if message.role == "tool":
        whose = " for the user" if message.requestor == "user" else ""
        return f"tool {message.tool_name or ''}".strip() + whose
    return "agent" if message.role == "assistant" else message.role


def _laid_out(text: str) -> str:
    """Return a JSON answer with a line for each part, and any other as it is.

    >>> print(_laid_out('{"id": 7, "tags": ["a"], "at": {"x": 1}}'))
    id: 7
    tags: ["a"]
    at: {"x": 1}
    >>> _laid_out('[1, 2]'), _laid_out('not found: {'), _laid_out('{}')
    ('[1, 2]', 'not found: {', '{}')
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(value, dict) and value:
        return "\n".join(f"{key}: {_short(part)}" for key, part in value.items())
    if isinstance(value, list) and any(isinstance(part, dict | list) for part in value):
        return "\n".join(_short(part) for part in value)
    return text


def _short(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _call(call: ToolCall, most: int) -> dict[str, Any]:
    """Return a call by its name and arguments, a value each, all of them bounded together."""
    arguments, left, cut = [], most, 0
    for name, value in call.arguments.items():
        text = json.dumps(value, ensure_ascii=False)
        arguments.append({"name": name[:80], "value": text[:left]})
        cut += max(0, len(text) - left)
        left -= min(len(text), left)
        if left <= 0:
            cut += sum(len(str(one)) for one in list(call.arguments.values())[len(arguments) :])
            break
    return {"name": call.name[:200], "arguments": arguments, "cut": cut}
