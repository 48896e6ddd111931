"""Messages in the forms that models and frameworks use, as messages in the chat form.

Known are those of OpenAI (chat and responses), Anthropic, Gemini, LangChain and of OpenTelemetry's GenAI
conventions, alone, in lists, and inside the objects in which requests and responses wrap them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from trace_assets.formats.fields import dict_of, list_of
from trace_assets.formats.unread import left_of
from trace_assets.untrusted.json_text import read_embedded

Said = dict[str, Any]
"""A message as `chat.read_chat` takes it."""

_ROLES: Mapping[str, str] = {
    "system": "system",
    "developer": "system",
    "systemmessage": "system",
    "user": "user",
    "human": "user",
    "humanmessage": "user",
    "humanmessagechunk": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "aimessage": "assistant",
    "aimessagechunk": "assistant",
    "chat": "user",
    "tool": "tool",
    "function": "tool",
    "toolmessage": "tool",
    "functionmessage": "tool",
    "ipython": "tool",
}
_INSIDE = ("messages", "input", "inputs", "contents", "prompt", "question", "query")
_ANSWER = (
    "choices",
    "generations",
    "message",
    "messages",
    "output",
    "outputs",
    "response",
    "result",
    "candidates",
    "content",
    "completion",
    "answer",
    "text",
)
_DEEP = 8
"""Objects inside each other that are looked through for messages."""


def asked(value: Any) -> list[Said]:
    """Return what a model was given.

    >>> asked({"messages": [{"role": "user", "content": "Hi"}]}), asked("Hi")
    ([{'role': 'user', 'content': 'Hi'}], [{'role': 'user', 'content': 'Hi'}])
    """
    return list(_found(value, "user", _INSIDE, _DEEP))


def answered(value: Any) -> list[Said]:
    """Return what a model gave.

    >>> answered({"choices": [{"message": {"role": "assistant", "content": "Hello"}}]})
    [{'role': 'assistant', 'content': 'Hello'}]
    """
    return list(_found(value, "assistant", _ANSWER, _DEEP))


def in_chat_form(messages: list[Any], system: Any = None, left: Counter[str] | None = None) -> list[Any]:
    """Return messages in the chat form; those that are in it stay as they are.

    Results that name no call (Gemini) answer the first open call of their tool.

    Args:
        messages: Messages; what is none is left to whoever reads them.
        system: What the request told the model apart from the messages, where no message does.
        left: Counts, by their kind, the parts whose words are in none of the messages.

    >>> call = {"role": "model", "parts": [{"functionCall": {"name": "add", "args": {"x": 1}}}]}
    >>> in_chat_form([call])[0]["tool_calls"]
    [{'id': 'call_0_0', 'name': 'add', 'arguments': {'x': 1}}]
    """
    told: list[Any] = []
    open_calls: list[Said] = []
    for number, one in enumerate(messages):
        foreign = isinstance(one, Mapping) and _is_foreign(one)
        found = list(_message(one, "user")) if foreign else [one]
        if foreign and left is not None:
            left.update(left_of(one, found))
        for said in found:
            if foreign:
                _number_calls(said, f"call_{number}", open_calls)
            told.append(said)
    words = _text(dict_of(system).get("parts", system)) if system else ""
    first = told[0] if told and isinstance(told[0], Mapping) else {}
    if words and first.get("role") not in ("system", "developer"):
        told.insert(0, {"role": "system", "content": words})
    return told


def _is_foreign(one: Mapping[str, Any]) -> bool:
    """Tell whether a message keeps calls or results among its parts, or names its speaker elsewhere."""
    if not isinstance(one.get("role"), str):
        return is_message(one)
    parts = one.get("content")
    if parts is None and isinstance(one.get("parts"), list):
        return True
    return isinstance(parts, list) and any(
        isinstance(part, Mapping) and str(part.get("type")).replace("-", "_") in _DOING for part in parts
    )


def _number_calls(said: Said, prefix: str, open_calls: list[Said]) -> None:
    """Give calls without an id one, and results without one that of the call that they answer."""
    for place, call in enumerate(said.get("tool_calls") or ()):
        call["id"] = call["id"] or f"{prefix}_{place}"
        open_calls.append(call)
    if said["role"] != "tool":
        return
    number, name = said.get("tool_call_id"), said.get("name")
    unnamed = number is None
    fits = (one for one in open_calls if one["id"] == number or (unnamed and name in (None, one["name"])))
    answers = next(fits, None)
    if answers is not None:
        open_calls.remove(answers)
        said["tool_call_id"] = answers["id"]


def text_of(value: Any) -> str:
    """Return a result as text: JSON where it is none."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def parsed(value: Any) -> Any:
    """Return what a text holds that is a JSON object or array; other values as they are."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return read_embedded(value)
        except ValueError:
            return value
    return value


def _found(value: Any, role: str, keys: tuple[str, ...], depth: int) -> Iterator[Said]:
    value = parsed(value)
    if depth == 0 or value is None:
        return
    if isinstance(value, str):
        if value:
            yield {"role": role, "content": value}
    elif isinstance(value, list | tuple):
        items = list(value)
        if items and all(isinstance(one, list | tuple) for one in items):
            items = list(items[0])  # LangChain keeps lists of prompts; a chat model gets one
        if items and all(_is_part(one) for one in items):
            yield from _message({"role": role, "content": items}, role)
            return
        for one in items[:1] if _is_choice(items) else items:
            yield from _found(one, role, keys, depth - 1)
    elif isinstance(value, Mapping):
        if is_message(value):
            yield from _message(value, role)
            return
        system = value.get("system", value.get("instructions"))
        if role == "user" and system and not _mentions_system(value):
            yield {"role": "system", "content": _text(system)}
        for key in keys:
            inner = value.get(key)
            if inner not in (None, "", [], {}):
                yield from _found(inner, role, keys, depth - 1)
                return


def _mentions_system(value: Mapping[str, Any]) -> bool:
    given = parsed(value.get("messages"))
    first = given[0] if isinstance(given, list) and given else None
    return isinstance(first, Mapping) and _role(first, "") == "system"


def _is_choice(items: list[Any]) -> bool:
    """Tell the alternatives of one answer, of which the first counts, from messages in turn."""
    return all(
        isinstance(one, Mapping)
        and ("finish_reason" in one or "finishReason" in one or "generation_info" in one)
        and ("message" in one or "content" in one or "text" in one)
        and "role" not in one
        for one in items
    )


def is_message(value: Mapping[str, Any]) -> bool:
    """Tell whether an object is a message in one of these forms."""
    kind = value.get("type")
    if kind in ("function_call", "function_call_output", "reasoning", "constructor") or "role" in value:
        return kind != "constructor" or "kwargs" in value
    return isinstance(kind, str) and kind.lower() in _ROLES and ("content" in value or "data" in value)


def _is_part(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and "role" not in value
        and str(value.get("type")).replace("-", "_") in _PARTS
    )


def _role(value: Mapping[str, Any], role: str) -> str:
    return _ROLES.get(str(value.get("role") or value.get("type") or "").lower(), role)


def _message(value: Mapping[str, Any], role: str) -> Iterator[Said]:
    """Yield one message, and the results that some forms put inside it as messages of their own."""
    kind = value.get("type")
    if kind == "constructor":
        path = value.get("id")
        name = str(path[-1]) if isinstance(path, list) and path else ""
        yield from _message({**dict_of(value.get("kwargs")), "role": _ROLES.get(name.lower(), role)}, role)
        return
    if isinstance(value.get("data"), Mapping) and "content" not in value:
        yield from _message({**value["data"], "role": _role(value, role)}, role)
        return
    if kind == "function_call":
        call = {"id": value.get("call_id") or value.get("id"), "name": value.get("name")}
        yield {
            "role": "assistant",
            "content": None,
            "tool_calls": [{**call, "arguments": value.get("arguments")}],
        }
        return
    if kind == "function_call_output":
        yield {"role": "tool", "tool_call_id": value.get("call_id"), "content": text_of(value.get("output"))}
        return
    if kind == "reasoning" and "role" not in value:
        return
    own = _role(value, role)
    extra = dict_of(value.get("additional_kwargs"))
    calls = [_call(one) for one in list_of(value.get("tool_calls")) or list_of(extra.get("tool_calls"))]
    parts = value.get("parts", value.get("content"))
    texts, more, results, thoughts = _taken_apart(parts)
    thought = value.get("reasoning_content") or value.get("reasoning") or " ".join(thoughts)
    calls += [one for one in more if one["id"] is None or all(one["id"] != call["id"] for call in calls)]
    said: Said = {"role": own, "content": "\n".join(texts) if texts or not calls else None}
    if own == "tool":
        whole = texts or [text_of(value["content"])] if value.get("content") is not None else texts
        if results and not texts:
            yield from results
            return
        said["content"] = "\n".join(whole)
        said["tool_call_id"] = value.get("tool_call_id") or value.get("id")
        if value.get("name"):
            said["name"] = value["name"]
        said["is_error"] = value.get("status") == "error" or bool(value.get("is_error"))
        yield said
        return
    yield from results
    if calls:
        said["tool_calls"] = calls
    if isinstance(thought, str) and thought:
        said["reasoning"] = thought
    if texts or calls or not results:
        yield said


_PARTS = frozenset(
    {
        *("text", "input_text", "output_text", "refusal", "tool_call", "tool_call_response"),
        *("tool_use", "tool_result", "thinking", "reasoning", "redacted_thinking"),
        *("image", "image_url", "input_image", "blob", "file", "uri", "tool_error"),
    }
)


_DOING = frozenset(
    {
        "tool_call",
        "tool_call_response",
        "tool_use",
        "tool_result",
        "tool_error",
        "thinking",
        "redacted_thinking",
    }
)
"""Parts that are no words: the chat form has other places for them."""


def _taken_apart(parts: Any) -> tuple[list[str], list[Said], list[Said], list[str]]:
    """Return the texts, the calls, the results and the thoughts of a message's content."""
    texts: list[str] = []
    calls: list[Said] = []
    results: list[Said] = []
    thoughts: list[str] = []
    if parts is None:
        return texts, calls, results, thoughts
    for part in parts if isinstance(parts, list) else [parts]:
        if not isinstance(part, Mapping):
            texts.append(str(part))
            continue
        kind = str(part.get("type") or "").replace("-", "_")
        called = part.get("functionCall") or part.get("function_call")
        returned = part.get("functionResponse") or part.get("function_response")
        if isinstance(called, Mapping):
            calls.append(_call(called))
        elif isinstance(returned, Mapping):
            results.append(_returned(returned))
        elif kind in ("tool_call", "tool_use"):
            calls.append(_call(part))
        elif kind in ("tool_call_response", "tool_result", "tool_error"):
            results.append(_result(part))
        elif kind in ("thinking", "reasoning"):
            thoughts.append(_text(part.get("thinking") or part.get("content") or part.get("text")))
        elif "text" in part or "content" in part or "refusal" in part:
            texts.append(_text(part.get("text") or part.get("content") or part.get("refusal")))
        elif kind and kind != "redacted_thinking":
            texts.append(f"[{kind}]")
        elif not kind:
            texts.append(text_of(dict(part)))
    return texts, calls, results, thoughts


def _returned(part: Mapping[str, Any]) -> Said:
    """Return a result of Gemini's: by its rules an `error` tells that the call failed."""
    given = part.get("response")
    inner = given if isinstance(given, Mapping) else {}
    alone = len(inner) == 1 and ("output" in inner or "result" in inner)
    return {
        "role": "tool",
        "tool_call_id": part.get("id"),
        "name": part.get("name"),
        "content": text_of(next(iter(inner.values())) if alone else given),
        "is_error": bool(inner.get("error")),
    }


_ANSWERED = ("tool_use_id", "tool_call_id", "toolCallId", "id")


def _result(part: Mapping[str, Any]) -> Said:
    given = next(
        (part[key] for key in ("response", "result", "content", "output", "error") if key in part), None
    )
    failed = part.get("is_error") or part.get("isError") or part.get("type") in ("tool-error", "tool_error")
    if isinstance(given, Mapping) and {"type", "value"} <= set(given):  # the AI SDK's, of version 5 on
        failed = failed or str(given["type"]).startswith("error")
        given = given["value"]
    inner = given if isinstance(given, list) else None
    told = [one.get("resource", one) for one in inner or () if isinstance(one, Mapping)]  # MCP's, or a text
    texts = [one["text"] for one in map(dict_of, told) if isinstance(one.get("text"), str)]
    return {
        "role": "tool",
        "tool_call_id": next((part[key] for key in _ANSWERED if part.get(key)), None),
        "content": "\n".join(texts) if texts else text_of(given),
        "is_error": bool(failed),
        **({"name": part["toolName"]} if part.get("toolName") else {}),
    }


def _call(one: Any) -> Said:
    """Return a call in the chat form's short spelling."""
    one = parsed(one)
    body = dict_of(one)
    inner = dict_of(body.get("function")) or body
    given = next((inner[key] for key in ("arguments", "args", "input", "parameters") if key in inner), None)
    return {
        "id": body.get("id") or body.get("call_id") or body.get("toolCallId"),
        "name": inner.get("name") or inner.get("toolName"),
        "arguments": given,
    }


def _text(value: Any) -> str:
    """Return the words of a text, of a list of parts, or of an object with one."""
    if isinstance(value, list):
        return "\n".join(_text(one) for one in value)
    if isinstance(value, Mapping) and ("text" in value or "content" in value):
        return _text(value.get("text") or value.get("content"))
    return text_of(value)
