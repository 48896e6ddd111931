"""Messages in the OpenAI chat form, as logs really hold them.

Text is taken as `content`. What the form allows besides - parts that are not text, several parts, reasoning,
names - is kept in `Message.metadata`, so that an export can give it back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trace_assets.importers.outcome import not_too_many
from trace_assets.records import Message, Role, ToolCall
from trace_assets.untrusted.json_text import read_embedded

_ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
}
_OWN = frozenset({"role", "content", "tool_calls", "tool_call_id", "tool_name", "is_error", "requestor"})
_TAKEN = _OWN | {"function_call", "name", "error", "reasoning", "reasoning_content", "metadata"}
MOST_MESSAGES = 100_000
"""Messages of one trajectory; ten thousand are many."""
MOST_CALLS = 10_000
"""Tool calls of one message."""
_TEXT_PARTS = frozenset({"text", "input_text", "output_text", "refusal"})


def first_words(messages: tuple[Message, ...]) -> str:
    """Return what the user said first: what was asked, as far as a conversation tells."""
    return next((one.content for one in messages if one.role == "user" and one.content), "")


def read_chat(raw: Sequence[Any]) -> list[Message]:
    """Return the messages of a conversation.

    Raises:
        ValueError: A message is not an object, has an unknown role or a tool call without a name.
    """
    not_too_many(len(raw), MOST_MESSAGES, "messages")
    names: dict[str, str] = {}
    last = ""
    messages = []
    for number, message in enumerate(raw):
        if not isinstance(message, dict):
            raise ValueError(f"messages[{number}] is not an object")
        said = message.get("role")
        role = _ROLES.get(str(said))
        if role is None:
            raise ValueError(f"messages[{number}] has the unknown role {said!r}")
        calls = tuple(_calls(message, number))
        names.update((call.id, call.name) for call in calls)
        last = calls[-1].id if calls else last
        answered = None
        if role == "tool":
            # The old function form answers the last call without naming it.
            answered = str(message.get("tool_call_id") or last or f"call_{number}")
        content, metadata = _content(message.get("content"), number)
        metadata.update(_besides(message, role))
        messages.append(
            Message(
                role=role,
                content=content,
                tool_calls=calls,
                tool_call_id=answered,
                tool_name=_tool_name(message, names, answered) if answered else None,
                is_error=bool(message.get("is_error") or message.get("error")) if answered else False,
                requestor="user" if message.get("requestor") == "user" else "assistant",
                metadata=metadata,
            )
        )
    return messages


def _tool_name(message: Mapping[str, Any], names: Mapping[str, str], answered: str) -> str | None:
    named = message.get("tool_name") or message.get("name")
    return str(named) if named else names.get(answered)


def _besides(message: Mapping[str, Any], role: Role) -> dict[str, Any]:
    """Return what a message holds that has no field of its own."""
    kept = dict(message["metadata"]) if isinstance(message.get("metadata"), dict) else {}
    kept.update(
        {key: value for key, value in message.items() if key not in _TAKEN and value not in (None, [])}
    )
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if reasoning:
        kept["reasoning"] = reasoning
    if message.get("role") not in (role, None):
        kept["role"] = message["role"]
    if role != "tool" and message.get("name"):
        kept["name"] = message["name"]
    if role == "tool" and message.get("error") not in (None, False, True):
        kept["error"] = message["error"]
    return kept


def _content(value: Any, number: int) -> tuple[str | None, dict[str, Any]]:
    """Return a content's text, and its parts where text does not say all."""
    if value is None or isinstance(value, str):
        return value, {}
    if not isinstance(value, list):
        raise ValueError(f"messages[{number}] has a content that is neither text nor a list of parts")
    texts = []
    for part in value:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and part.get("type", "text") in _TEXT_PARTS:
            texts.append(str(part.get("text") or part.get("refusal") or ""))
        else:
            kind = part.get("type") if isinstance(part, dict) else type(part).__name__
            texts.append(f"[{kind}]")
    return "\n".join(texts), {"content": value}


def _calls(message: Mapping[str, Any], number: int) -> Iterator[ToolCall]:
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise ValueError(f"messages[{number}] has 'tool_calls' that are no list")
    not_too_many(len(calls), MOST_CALLS, "tool calls in one message")
    if message.get("function_call"):
        calls = [*calls, {"function": message["function_call"]}]
    for place, call in enumerate(calls):
        if isinstance(call, str):  # some logs keep each call as JSON text
            try:
                call = read_embedded(call)
            except ValueError:
                call = None
        body = call.get("function") or call.get("custom") or call if isinstance(call, dict) else None
        name = (body.get("name") or body.get("function_name")) if isinstance(body, dict) else None
        if not isinstance(name, str) or not isinstance(body, dict) or not isinstance(call, dict):
            raise ValueError(f"messages[{number}] has a tool call without a name")
        given = body["input"] if "input" in body else body.get("arguments")
        identity = (
            call.get("id") or call.get("tool_call_id") or f"call_{number}" + (f"_{place}" if place else "")
        )
        yield ToolCall(id=str(identity), name=name, arguments=read_arguments(given))


def read_arguments(given: Any) -> dict[str, Any]:
    """Return a call's arguments; what is no JSON object is kept under `raw`.

    >>> read_arguments('{"order": "K1"}'), read_arguments("{"), read_arguments(None)
    ({'order': 'K1'}, {'raw': '{'}, {})
    """
    if given is None or given == "":
        return {}
    if isinstance(given, str):
        try:
            value = read_embedded(given)
        except ValueError:
            return {"raw": given}
        return value if isinstance(value, dict) else {"raw": given}
    return given if isinstance(given, dict) else {"raw": given}
