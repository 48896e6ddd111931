"""What a client asks for: read as far as the router needs it, handed on as it was said but for the model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import msgspec

from trace_assets.errors import InputError
from trace_assets.untrusted.allowance import TooLarge
from trace_assets.untrusted.json_text import check_cost, whole_pairs

ROUTED = "routed"
"""The model that a request names to be routed."""
MOST_MEMORY = 1 << 30
"""Bytes that reading a body may take; one is read at a time."""


@dataclass(frozen=True)
class Asked:
    """What the router needs of a request.

    Attributes:
        opening: What to route it by; None where it names a model.
        turns: How many replies the conversation holds.
        choices: How many answers it asks for.
        streams: Whether it asks for them in pieces.
    """

    opening: str | None = None
    turns: int = 0
    choices: int = 1
    streams: bool = False


def read_request(content: bytes) -> Asked:
    """Read a request.

    Args:
        content: Its body. One that is no JSON object asks for nothing here: what it is, is for the server
            to say.

    Raises:
        InputError: It asks to be routed and holds nothing to route by, or is half a text; or reading it would
            take far more memory than its length.
    """
    values = _values(content)
    if values is None:
        return Asked()
    choices, streams = _count(_read(values.get("n"))), bool(_read(values.get("stream")))
    if _read(values.get("model")) != ROUTED:
        return Asked(choices=choices, streams=streams)
    if whole_pairs(content) != content:
        raise InputError("the request holds half a surrogate pair (\\ud800 to \\udfff), which is no text.")
    body = {"messages": _read(values.get("messages"))}
    return Asked(conversation_opening(body), turns_before(body), choices, streams)


def with_model(content: bytes, model: str) -> bytes:
    """Return a request that names another model; all else is as it was said, to the last digit of a number.

    Args:
        content: A JSON object. Where it names something twice the last counts, and it alone is handed on.
        model: What it shall name.

    >>> with_model(b'{"model": "routed", "seed": 1e400, "top": [ 0.10 ], "top": [ 0.20 ]}', "base")
    b'{"model":"base","seed":1e400,"top":[ 0.20 ]}'
    """
    values = {**(_values(content) or {}), "model": json.dumps(model).encode()}
    pairs = (json.dumps(name).encode() + b":" + value for name, value in values.items())
    return b"{" + b",".join(pairs) + b"}"


def json_object(content: bytes) -> dict[str, Any] | None:
    """Read a body; None when it is no JSON object.

    Raises:
        InputError: It would take far more memory than its length.
    """
    _check(content)
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _values(content: bytes) -> dict[str, bytes] | None:
    """Return the values of a JSON object as they are written; None when it is none."""
    _check(content)
    try:
        written = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        return {name: bytes(value) for name, value in written.items()}
    except (ValueError, RecursionError):
        pass  # perhaps it holds numbers that are none (NaN), or is no UTF-8, as Python's own parser takes it
    found = json_object(content)
    return None if found is None else {name: json.dumps(value).encode() for name, value in found.items()}


def _check(content: bytes) -> None:
    try:
        check_cost(content, MOST_MEMORY)
    except TooLarge:
        raise InputError("the body's JSON would take too much memory.") from None


def _read(value: bytes | None) -> Any:
    try:
        return None if value is None else json.loads(value)
    except (ValueError, RecursionError):  # a number of more digits than Python reads
        return None


def _count(number: object) -> int:
    """Return how many answers a request means; servers take a number that is written as text, too.

    >>> [_count(number) for number in (None, 3, "2", 2.0, 0, "x", 1e400, True)]
    [1, 3, 2, 2, 0, 1, 1, 1]
    """
    try:
        return int(number) if isinstance(number, int | float | str) else 1
    except (ValueError, OverflowError):
        return 1


# What a conversation is routed by: the text of its first user message, in the forms that clients send.


LONGEST_OPENING = 32_768
"""Characters that a conversation is routed by: some eight thousand tokens, seconds to read at the most."""


def conversation_opening(body: dict[str, Any]) -> str:
    """Return the text of the first user message of a chat request.

    Later messages do not count, so a conversation keeps its adapter while it grows, with no state held. Of a
    long one the beginning counts.

    Args:
        body: Body of a request to `/v1/chat/completions`.

    Raises:
        InputError: There is no user message, or none of its parts is text.

    >>> conversation_opening({"messages": [{"role": "system", "content": "Be brief."},
    ...                                    {"role": "user", "content": "Cancel K1."}]})
    'Cancel K1.'
    """
    messages = body.get("messages")
    rows = [row for row in messages if isinstance(row, dict)] if isinstance(messages, list) else []
    first = next((row for row in rows if row.get("role") == "user"), None)
    text = "" if first is None else _text(first.get("content"))
    if not text[:LONGEST_OPENING].strip():
        raise InputError(
            "the conversation has no user message with text, so there is nothing to route it by: "
            "send one, or name a model of the server instead of the routed one."
        )
    return text[:LONGEST_OPENING]


def turns_before(body: dict[str, Any]) -> int:
    """Return how many replies of the assistant a request already holds: 0 for a conversation's first."""
    messages = body.get("messages")
    return (
        sum(isinstance(row, dict) and row.get("role") == "assistant" for row in messages)
        if isinstance(messages, list)
        else 0
    )


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str))
