"""The Hermes form of tool calls: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>` inside text."""

from __future__ import annotations

import json
import math
from typing import Any

from trace_assets.records import Message, ToolCall

OPEN, CLOSE = "<tool_call>", "</tool_call>"
DEEPEST = 64
"""Levels of JSON in a call's arguments; readers of stored trajectories give up at about 200."""


def render_tool_call(call: ToolCall) -> str:
    r"""Write one call as a model would.

    >>> render_tool_call(ToolCall(id="call_0", name="get_order", arguments={"order": "A1"}))
    '<tool_call>{"name": "get_order", "arguments": {"order": "A1"}}</tool_call>'
    """
    body = json.dumps({"name": call.name, "arguments": call.arguments}, ensure_ascii=False)
    # A tag inside an argument would end the call early: written as an escape, it is only a string.
    body = body.replace(OPEN, "\\u003ctool_call>").replace(CLOSE, "\\u003c/tool_call>")
    return f"{OPEN}{body}{CLOSE}"


def render_message(message: Message) -> str:
    """Write an assistant message as text: its words, then its calls."""
    return (message.content or "") + "".join(render_tool_call(call) for call in message.tool_calls)


def parse_reply(text: str, first_call: int = 0) -> tuple[Message, bool]:
    """Read a model's reply.

    Strict: the body of every `<tool_call>` must be one JSON object with exactly a `name` (non-empty string)
    and `arguments` (object), without duplicate keys, non-finite numbers or lone surrogates, and every tag
    must have its partner. Reasoning in `<think>...</think>` is taken out of the words.

    Args:
        text: The reply without its end-of-turn token.
        first_call: Number of the first call, so that ids `call_<n>` stay unique in a conversation.

    Returns:
        The assistant message, and whether the reply was malformed: the message then carries the raw text as
        its content and no calls.

    >>> parse_reply('<tool_call>{"name": "look", "arguments": {}}</tool_call>')[0].tool_calls[0].id
    'call_0'
    >>> parse_reply('<tool_call>{"name": "look"')[1]
    True
    """
    said, _ = cut_out(text, "<think>", "</think>")
    words, bodies = cut_out(said, OPEN, CLOSE)
    broken = any(tag in words for tag in (OPEN, CLOSE, "<think>", "</think>"))
    calls: list[ToolCall] = []
    for body in bodies:
        call = parse_call(body)
        if call is None:
            broken = True
            break
        calls.append(ToolCall(id=f"call_{first_call + len(calls)}", name=call[0], arguments=call[1]))
    if broken or not is_text(text):
        return Message(role="assistant", content=text.encode("utf-8", "replace").decode()), True
    words = words.strip()
    return Message(
        role="assistant", content=words if words or not calls else None, tool_calls=tuple(calls)
    ), False


def cut_out(text: str, begin: str, end: str) -> tuple[str, list[str]]:
    """Return a text without its marked parts, and those; a mark without its partner stays.

    In time that grows with the text alone, however many marks are never closed.

    >>> cut_out("a<x>b</x>c<x>d", "<x>", "</x>")
    ('ac<x>d', ['b'])
    """
    rest, inside, at = [], [], 0
    while (opened := text.find(begin, at)) >= 0:
        closed = text.find(end, opened + len(begin))
        if closed < 0:
            break
        rest.append(text[at:opened])
        inside.append(text[opened + len(begin) : closed])
        at = closed + len(end)
    return "".join([*rest, text[at:]]), inside


def parse_call(body: str) -> tuple[str, dict[str, Any]] | None:
    """Return name and arguments of one call's JSON, None when it is not exactly that."""
    value = strict_json(body)
    if not isinstance(value, dict) or set(value) != {"name", "arguments"}:
        return None
    name, arguments = value["name"], value["arguments"]
    if not isinstance(name, str) or not name or not isinstance(arguments, dict):
        return None
    return name, arguments


def strict_json(text: str) -> Any:
    """Read JSON that every other reader would read alike.

    Returns:
        The value; None when the text is not JSON, repeats a key, holds NaN, infinities or lone surrogates, or
        nests deeper than `DEEPEST`.
    """
    try:
        value = _DECODER.decode(text.strip())
        if "\\u" in text and not is_text(json.dumps(value, ensure_ascii=False)):
            return None
        return None if _is_deeper(value, DEEPEST) else value
    except (ValueError, RecursionError):
        return None


def _is_deeper(value: Any, most: int) -> bool:
    level = [value]
    for _ in range(most + 1):
        level = [inner for one in level for inner in _inside(one)]
        if not level:
            return False
    return True


def _inside(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


def is_text(text: str) -> bool:
    """Tell whether a string can be stored as UTF-8 (no lone surrogates)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("repeated key")
    return value


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("number out of range")
    return value


def _refuse(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_refuse)
