"""The messages of a tau2 simulation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trace_assets.importers.chat import MOST_CALLS, MOST_MESSAGES
from trace_assets.importers.outcome import not_too_many
from trace_assets.records import Message, ToolCall
from trace_assets.untrusted.json_text import read_embedded


def read_messages(raw: list[Any]) -> Iterator[Message]:
    """Yield the messages, several results of one turn one by one, each result with its tool's name.

    Raises:
        ValueError: A message is not an object or has an unknown role.
    """
    names: dict[str, str] = {}
    flat = [part for message in raw for part in (_object_list(message, "tool_messages") or [message])]
    not_too_many(len(flat), MOST_MESSAGES, "messages")
    for number, message in enumerate(flat):
        if not isinstance(message, dict):
            raise ValueError(f"messages[{number}] is not an object")
        role = message.get("role")
        if role not in ("system", "user", "assistant", "tool"):
            raise ValueError(f"messages[{number}] has the unknown role {role!r}")
        by = "user" if role == "user" or message.get("requestor") == "user" else "assistant"
        not_too_many(len(message.get("tool_calls") or ()), MOST_CALLS, "tool calls in one message")
        calls = tuple(_call(call, number) for call in message.get("tool_calls") or ())
        names.update((call.id, call.name) for call in calls)
        answered = str(message.get("id")) if role == "tool" else None
        yield Message(
            role=role,
            content=message.get("content"),
            tool_calls=calls,
            tool_call_id=answered,
            tool_name=names.get(answered) if answered else None,
            is_error=bool(message.get("error")) if role == "tool" else False,
            requestor="user" if by == "user" else "assistant",
            metadata=_metadata(message),
        )


def metadata_of(reasoning: Any, errors: Any, tokens: int | None) -> dict[str, Any]:
    """Return what is kept of a message besides its words.

    Args:
        reasoning: What the agent thought.
        errors: The program's account of messages that it refused in this one's place.
        tokens: Tokens that were generated for a message that says nothing.
    """
    kept = {"reasoning": reasoning, "errors": errors, "completion_tokens": tokens}
    return {name: value for name, value in kept.items() if value}


def _metadata(message: dict[str, Any]) -> dict[str, Any]:
    usage = message.get("usage")
    silent = (
        message.get("role") == "assistant" and not message.get("content") and not message.get("tool_calls")
    )
    tokens = usage.get("completion_tokens") if silent and isinstance(usage, dict) else None
    return metadata_of(message.get("reasoning"), message.get("errors"), tokens)


def _object_list(message: Any, key: str) -> list[Any] | None:
    value = message.get(key) if isinstance(message, dict) else None
    return value if isinstance(value, list) else None


def _call(call: Any, number: int) -> ToolCall:
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        raise ValueError(f"messages[{number}] has a tool call without a name")
    arguments = call.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = read_embedded(arguments)
        except ValueError:
            arguments = {"raw": arguments}
    return ToolCall(
        id=str(call.get("id") or f"call_{number}"),
        name=call["name"],
        arguments=arguments if isinstance(arguments, dict) else {},
    )
