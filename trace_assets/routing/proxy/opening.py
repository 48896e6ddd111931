"""What a conversation is routed by: the text of its first user message, in the forms that clients send."""

from __future__ import annotations

import hashlib
from typing import Any

from trace_assets.errors import InputError

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


def opening_hash(text: str) -> str:
    """Return 16 hexadecimal digits that stand for an opening where its text must not be kept."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str))
