"""Messages in the OpenAI chat form, as logs really hold them.

Text is taken as `content`. What the form allows besides - parts that are not text, several parts, reasoning,
names - is kept in `Message.metadata`, so that an export can give it back.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trace_assets.formats.fields import dict_of, not_too_many, said_so
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
_IN_PARTS = ("text", "content", "output")
"""Where parts of a kind that is not known have their words."""
_TEXT_PARTS = frozenset({"text", "input_text", "output_text", "refusal"})


def first_words(messages: tuple[Message, ...]) -> str:
    """Return what the user said first: what was asked, as far as a conversation tells."""
    return next((one.content for one in messages if one.role == "user" and one.content), "")


def read_chat(raw: Sequence[Any], left: Counter[str] | None = None) -> list[Message]:
    """Return the messages of a conversation.

    Args:
        raw: What the log holds.
        left: Counts, by their kind, the entries that are left out, for nobody says whose words they are;
            None refuses a conversation that holds one.

    Raises:
        ValueError: A message is not an object, has an unknown role or a tool call without a name.
    """
    not_too_many(len(raw), MOST_MESSAGES, "messages")
    names: dict[str, str] = {}
    waiting: list[tuple[str, ToolCall]] = []
    last, unknown = "", ""
    messages = []
    for number, message in enumerate(raw):
        if not isinstance(message, dict):
            raise ValueError(f"messages[{number}] is not an object")
        if number + 1 < len(raw) and _says_again(message, raw[number + 1]):
            continue
        said = message.get("role")
        role = _ROLES.get(str(said))
        if role is None and left is not None:
            role = _role_of(said, raw)
        if role is None:
            unknown = unknown or f"messages[{number}] has the unknown role {said!r}"
            if left is None:
                raise ValueError(unknown)
            left[f"role {str(said)[:40]}"] += 1
            continue
        given = tuple(_calls(message, number))
        calls = _told_apart(given)
        names.update((call.id, call.name) for call in calls)
        if calls:
            last = calls[-1].id
            waiting = [(one.id, call) for one, call in zip(given, calls, strict=True)]
        answered = None
        if role == "tool":
            answered = _answered(message, waiting) or last or f"call_{number}"
        content, metadata = _content(_unwrapped(message.get("content"), role), number)
        metadata.update(_besides(message, role))
        messages.append(
            Message(
                role=role,
                content=content,
                tool_calls=calls,
                tool_call_id=answered,
                tool_name=_tool_name(message, names, answered) if answered else None,
                is_error=bool(answered) and any(said_so(message.get(name)) for name in _FAILED),
                requestor="user" if message.get("requestor") == "user" else "assistant",
                metadata=metadata,
            )
        )
    if unknown and not any(one.role == "assistant" for one in messages):
        raise ValueError(unknown)  # whose words are lost may be the agent's
    return messages


def _says_again(message: Mapping[str, Any], later: Any) -> bool:
    """Tell whether the next entry is this one again, or goes on with it: streams are logged as they grow.

    An entry without an id of its own may be a word that was said twice.
    """
    name = message.get("id")
    if not name or not isinstance(later, dict) or later.get("id") != name:
        return False
    said, more = message.get("content"), later.get("content")
    grows = isinstance(said, str) and isinstance(more, str) and bool(said) and more.startswith(said)
    return message == later or (grows and {**message, "content": more} == {**later, "content": more})


def _told_apart(calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    """Return the calls of one message with an id each: some servers call all of them alike."""
    if len({call.id for call in calls}) == len(calls):
        return calls
    met: set[str] = set()
    found = []
    for place, call in enumerate(calls):
        found.append(call.model_copy(update={"id": f"{call.id}_{place}"}) if call.id in met else call)
        met.add(call.id)
    return tuple(found)


def _answered(message: Mapping[str, Any], waiting: list[tuple[str, ToolCall]]) -> str:
    """Return which call a result answers, and take that from those that wait for one.

    The old function form names no call, or its tool alone: results then come in the order of the calls.
    """
    named, tool = str(message.get("tool_call_id") or ""), message.get("tool_name") or message.get("name")
    for place, (given, call) in enumerate(waiting):
        if given == named or (not named and tool in (None, "", call.name)):
            return waiting.pop(place)[1].id
    return named


def _role_of(said: object, raw: Sequence[Any]) -> Role | None:
    """Return whose a role is that nobody knows, by what its entries do: call tools, or answer calls."""
    own = [one for one in raw if isinstance(one, dict) and one.get("role") == said]
    if any(one.get("tool_calls") for one in own):
        return "assistant"
    return "tool" if all(one.get("tool_call_id") for one in own) else None


_FAILED = ("is_error", "error", "isError", "tool_call_error")
"""Fields by which a result says that the call failed."""


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
    if role == "tool" and message.get("error") is not True and said_so(message.get("error")):
        kept["error"] = message["error"]
    return kept


_WRAPPED = re.compile(r'\s*\[?\s*\{\s*"(?:type|text|annotations|meta|_meta)"\s*:')
"""How a list of MCP's content blocks, or one, begins as JSON text."""
_OF_TEXT = frozenset({"type", "text", "annotations", "meta", "_meta"})


def _unwrapped(value: Any, role: Role) -> Any:
    """Return a tool's result without the text blocks of MCP that some clients keep as JSON text.

    What is no such block in every part is a result of its own, and stays as it is.

    >>> _unwrapped('{"type":"text","text":"[FILE] a.md"}', "tool"), _unwrapped('{"type":"text"}', "tool")
    ([{'type': 'text', 'text': '[FILE] a.md'}], '{"type":"text"}')
    """
    if role != "tool" or not isinstance(value, str) or not _WRAPPED.match(value):
        return value
    try:
        told = read_embedded(value)
    except ValueError:
        return value
    blocks = told if isinstance(told, list) else [told]
    texts = (
        isinstance(one, dict)
        and one.get("type") == "text"
        and isinstance(one.get("text"), str)
        and one.keys() <= _OF_TEXT
        for one in blocks
    )
    return blocks if blocks and all(texts) else value


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
            said = part.get("text") or part.get("refusal") or part.get("content")
            if isinstance(said, dict):  # a message of OpenAI's threads
                said = said.get("value")
            texts.append(str(said) if said else "".join(f"[{name}]" for name in part if "type" not in part))
        else:
            about = dict_of(part)
            said = next((about[name] for name in _IN_PARTS if isinstance(about.get(name), str)), "")
            texts.append(said or f"[{about.get('type') if about else type(part).__name__}]")
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
        if isinstance(call, dict) and isinstance(body, str):  # AgentDojo: {"function": name, "args": {...}}
            body = {**call, "name": body}
        name = (body.get("name") or body.get("function_name")) if isinstance(body, dict) else None
        if not isinstance(name, str) or not isinstance(body, dict) or not isinstance(call, dict):
            raise ValueError(f"messages[{number}] has a tool call without a name")
        given = body["input"] if "input" in body else body.get("arguments", body.get("args"))
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


def prompt_id(text: str) -> str:
    """Return a task id for a prompt: equal prompts are trials of one task."""
    return f"prompt-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
