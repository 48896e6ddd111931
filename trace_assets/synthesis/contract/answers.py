"""Calls and what they were answered, whoever made them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal

from trace_assets.diagnosis.detectors.values import leaves, tells_error
from trace_assets.records import Json, Message, ToolCall, Trajectory

Side = Literal["assistant", "user"]


def answered_calls(trajectory: Trajectory, by: Side = "assistant") -> Iterator[tuple[ToolCall, str, bool]]:
    """Yield every tool call of one side with its answer and whether that was an error.

    An answer that says so itself is an error too: many logs do not mark them.
    """
    for call, answer in paired(trajectory, by):
        if answer is not None:
            text = answer.content or ""
            yield call, text, answer.is_error or tells_error(text)


def paired(trajectory: Trajectory, by: Side = "assistant") -> Iterator[tuple[ToolCall, Message | None]]:
    """Yield every tool call of one side with its answer, None where there is none.

    An answer belongs to the last call of its id before it: some servers number the calls of every turn anew.
    """
    waiting: dict[str, int] = {}
    found: list[tuple[ToolCall, Message | None]] = []
    for message in trajectory.messages:
        if message.role == by and (by == "user" or message.requestor == "assistant"):
            for call in message.tool_calls:
                waiting[call.id] = len(found)
                found.append((call, None))
        elif message.role == "tool" and message.tool_call_id in waiting:
            at = waiting.pop(message.tool_call_id)
            found[at] = (found[at][0], message)
    yield from found


def parsed(text: str) -> Any:
    """Return the JSON value of a text, or the text itself when it is not JSON.

    >>> parsed('{"ok": true}'), parsed("done")
    ({'ok': True}, 'done')
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def masked(text: str, arguments: Json) -> str:
    """Replace the values of a call's arguments in a text by `{argument}`, for nested ones by the last name.

    >>> masked("no loan L-17", {"loan": "L-17"})
    'no loan {loan}'
    >>> masked("cannot pay with c_1, not now", {"ways": [{"payment_id": "c_1"}], "insured": "no"})
    'cannot pay with {payment_id}, not now'
    """
    found = {(path.rpartition(".")[2], value) for path, value in leaves(arguments) if isinstance(value, str)}
    for name, value in sorted(found, key=lambda item: (-len(item[1]), item)):
        if len(value) > 1 and value in text:
            slot = "{" + name.replace("\\", "\\\\") + "}"
            text = re.sub(rf"(?<![\w{{]){re.escape(value)}(?![\w}}])", slot, text)
    return text
