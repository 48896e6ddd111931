"""Logs of events: what an agent's program notes line by line, as messages in the chat form.

Known are the events of Google's ADK, the messages that Claude's Agent SDK gives, the lines of Codex'
sessions, the updates of LangGraph, the actions and observations of OpenHands, the messages of Letta, and the
events that a loop of one's own writes under the usual names
(`{"event": "tool_call", "tool": ..., "args": ...}`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from trace_assets.formats.agent_steps import NOTE, asks, gives, of_step, says
from trace_assets.formats.fields import dict_of, first_of, objects_in
from trace_assets.formats.spans.chat_forms import is_message, text_of

Said = dict[str, Any]
"""A message as `chat.read_chat` takes it, or as `chat_forms.in_chat_form` does."""


def of_event(one: Mapping[str, Any]) -> list[Said] | None:
    """Return what an entry of a log of events says; empty where it says nothing, None for what is no event.

    >>> of_event({"event": "tool_call", "tool": "add", "args": {"x": 1}})[0]["tool_calls"]
    [{'id': None, 'name': 'add', 'arguments': {'x': 1}}]
    >>> of_event({"type": "session_meta", "payload": {}}), of_event({"type": "text", "text": "a"})
    ([], None)
    """
    for form in _FORMS:
        found = form(one)
        if found is not None:
            return found if found is NOTE else list(found)
    return of_step(one)


# Google's ADK: events of a session, with the parts of Gemini.


def _adk(one: Mapping[str, Any]) -> Iterable[Said] | None:
    content = one.get("content")
    if not isinstance(one.get("author"), str) or "role" in one:
        return None
    if not isinstance(content, Mapping):
        return [] if {"actions", "invocationId", "invocation_id"} & one.keys() else None
    if not isinstance(content.get("parts"), list):
        return None if "parts" in content else []
    if one.get("partial"):
        return NOTE  # the whole event follows
    return _gemini("user" if one["author"] == "user" else "assistant", objects_in(content["parts"]))


def _gemini(role: str, parts: list[Mapping[str, Any]]) -> Iterator[Said]:
    texts = [part.get("text") for part in parts if not part.get("thought")]
    thoughts = [part.get("text") for part in parts if part.get("thought")]
    calls = []
    for part in parts:
        used = dict_of(first_of(part, "functionCall", "function_call"))
        gave = dict_of(first_of(part, "functionResponse", "function_response"))
        if used:
            calls.append({"id": used.get("id"), "name": used.get("name"), "arguments": used.get("args")})
        elif gave:
            given = gave.get("response")
            inner = dict_of(given)
            alone = len(inner) == 1 and bool({"output", "result", "error"} & inner.keys())
            content = next(iter(inner.values())) if alone else given
            yield gives(gave.get("id"), gave.get("name"), content, inner.get("error"))
    yield from says(role, texts, calls, thoughts)


# Claude's Agent SDK: a line a message, `system` and `result` around them; or its objects of Python.


def _claude(one: Mapping[str, Any]) -> Iterable[Said] | None:
    kind, inner = one.get("type"), one.get("message")
    if kind in ("user", "assistant") and isinstance(inner, Mapping) and "role" not in one:
        return NOTE if one.get("parent_tool_use_id") else _blocks(str(kind), inner.get("content"))
    if isinstance(kind, str) and "session_id" in one and kind in _CLAUDE_NOTES and "role" not in one:
        return NOTE
    if "parent_tool_use_id" in one and "content" in one and "role" not in one:
        if one["parent_tool_use_id"]:
            return NOTE
        return _blocks("assistant" if "model" in one else "user", one["content"])
    if "subtype" in one and ("data" in one or "num_turns" in one) and "role" not in one:
        return NOTE
    return None


_CLAUDE_NOTES = frozenset(
    {"system", "result", "stream_event", "control_request", "control_response", "rate_limit_event"}
    | {"tool_progress", "auth_status", "keep_alive"}
)


def _blocks(role: str, content: Any) -> Iterator[Said]:
    """Yield what Anthropic's blocks say; a thought alone is no turn."""
    if not isinstance(content, list):
        yield {"role": role, "content": text_of(content)}
        return
    texts, calls = [], []
    for part in objects_in(content):
        if "tool_use_id" in part:
            given = part.get("content")
            inner = [text_of(each.get("text", dict(each))) for each in objects_in(given)]
            yield gives(part["tool_use_id"], None, "\n".join(inner) if inner else given, part.get("is_error"))
        elif "name" in part and "input" in part:
            name = _SERVED.sub("", str(part["name"]))
            calls.append({"id": part.get("id"), "name": name, "arguments": part["input"]})
        elif part.get("text"):
            texts.append(str(part["text"]))
    yield from says(role, texts, calls)


_SERVED = re.compile(r"^mcp__.+?__(?=.)")
"""How the SDK calls a tool that an MCP server serves: the server calls it without."""


# Codex: a line an item of OpenAI's newer interface, events and settings between them.


_CODEX_NOTES = frozenset({"session_meta", "turn_context", "event_msg", "compacted", "response_item"})
_PUT_BEFORE = ("<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<permissions")


def _codex(one: Mapping[str, Any]) -> Iterable[Said] | None:
    payload = one.get("payload")
    kind = one.get("type")
    if not isinstance(kind, str) or kind not in _CODEX_NOTES or not isinstance(payload, Mapping):
        return None
    if kind != "response_item":
        return NOTE
    if payload.get("type") == "message":
        texts = [str(part.get("text") or "") for part in objects_in(payload.get("content"))]
        if payload.get("role") == "user" and all(text.startswith(_PUT_BEFORE) for text in texts):
            return NOTE
        return [{"role": str(payload.get("role")), "content": "\n".join(texts)}]
    found = _item(payload)
    return [] if found is None else found


def _item(one: Mapping[str, Any]) -> Iterable[Said] | None:
    """Items of OpenAI's newer interface that are no messages: calls, results, what a server did by itself."""
    kind = one.get("type")
    if "role" in one or not isinstance(kind, str):
        return None
    number = first_of(one, "call_id", "id")
    if kind in ("function_call", "custom_tool_call"):
        return [asks(number, one.get("name"), first_of(one, "arguments", "input"))]
    if kind in ("function_call_output", "custom_tool_call_output"):
        return [gives(number, None, one.get("output"))]
    if kind == "mcp_call":
        broke = one.get("error")
        asked = asks(number, one.get("name"), one.get("arguments"))
        return [asked, gives(number, one.get("name"), broke if broke else one.get("output"), broke)]
    if kind in ("local_shell_call", "shell_call"):
        return [asks(number, "shell", one.get("action"))]
    if kind in ("local_shell_call_output", "shell_call_output"):
        return [gives(number, "shell", one.get("output"))]
    if kind in _ITEM_NOTES:
        return NOTE
    if kind in _BY_SERVER:
        name, asked = kind.removesuffix("_call"), first_of(one, "action", "queries", "code")
        given = first_of(one, "results", "outputs", "status")
        return [asks(number, name, asked), gives(number, name, given)]
    return None


_ITEM_NOTES = frozenset(
    {"reasoning", "item_reference", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response"}
    | {"compaction"}
)
_BY_SERVER = frozenset({"web_search_call", "file_search_call", "code_interpreter_call"})
"""Tools that OpenAI's server calls and answers by itself."""


# LangGraph: an update is an object with a node's name, and in it what the node added to the messages.


def _langgraph(one: Mapping[str, Any]) -> Iterable[Said] | None:
    if not one or "role" in one or len(one) > _NODES:
        return None
    told: list[Said] = []
    for update in one.values():
        if not isinstance(update, Mapping):
            return None
        said = update.get("messages")
        said = [said] if isinstance(said, Mapping) else said
        if said is not None and not (isinstance(said, list) and all(map(_is_langchain, said))):
            return None
        told += [dict(each) for each in said or ()]
    return told if any("messages" in update for update in one.values()) else None


_NODES = 8
"""Nodes that one step of a graph updates, at most."""


def _is_langchain(value: Any) -> bool:
    return isinstance(value, Mapping) and "role" not in value and is_message(value)


# OpenHands: actions and observations.


_UNSAID = frozenset({"recall", "agent_state_changed", "change_agent_state", "null", "condensation", "state"})


def _openhands(one: Mapping[str, Any]) -> Iterable[Said] | None:
    did, saw = (word if isinstance(word := one.get(key), str) else None for key in ("action", "observation"))
    if "role" in one or not isinstance(one.get("source"), str) or not isinstance(did or saw, str):
        return None
    if did in _UNSAID or saw in _UNSAID:
        return NOTE
    about, given = dict_of(one.get("tool_call_metadata")), dict_of(one.get("args"))
    name, number = about.get("function_name"), about.get("tool_call_id")
    if isinstance(saw, str):
        if saw in ("system", "message"):
            return NOTE
        failed = saw == "error" or dict_of(one.get("extras")).get("error")
        return [gives(number, name, one.get("content"), failed)]
    said = text_of(first_of(given, "content", "final_thought", "thought") or one.get("message"))
    if did in ("message", "system", "finish"):
        role = "system" if did == "system" else "user" if one["source"] == "user" else "assistant"
        return [{"role": role, "content": said}]
    if did == "call_tool_mcp":
        return [asks(number, given.get("name") or name, given.get("arguments"), given.get("thought"))]
    rest = {key: value for key, value in given.items() if key not in _OWN_ARGS and value not in (None, "")}
    return [asks(number, name or did, rest, given.get("thought"))]


_OWN_ARGS = frozenset({"thought", "hidden", "confirmation_state", "security_risk", "blocking", "is_input"})


# A loop of one's own: an event's kind tells who spoke, or that a tool was called or answered.


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


_KIND = ("event", "event_type", "message_type", "type", "kind", "step_type")
_BY_SYSTEM = _names("system system_message system_prompt")
_BY_USER = _names("user user_message human human_message user_input user_turn customer customer_message")
_BY_AGENT = _names(
    "assistant assistant_message agent agent_message ai ai_message llm_response model_response model_output "
    "bot bot_message assistant_turn final_answer agent_response assistant_response"
)
_CALLED = _names(
    "tool_call tool_use tool_start tool_request function_call tool_invocation tool_called "
    "tool_call_message action"
)
_ANSWERED = _names(
    "tool_result tool_response tool_output tool_end tool_finished function_result function_response "
    "tool_return tool_return_message observation"
)
_OF_SPANS = frozenset({"span_id", "spanId", "parentObservationId", "traceId", "run_type", "parent_run_id"})
"""Fields of rows that tracing tools write."""
_TEXT = ("content", "text", "message", "output", "response", "answer", "data")
_TOOL = ("tool", "tool_name", "name", "function", "function_name", "action")
_ARGUMENTS = ("args", "arguments", "input", "tool_input", "parameters", "params", "tool_args", "kwargs")
_GIVEN = (
    *("result", "output", "content", "response", "observation", "tool_output", "return_value", "value"),
    "tool_return",
)
_NUMBER = ("call_id", "tool_call_id", "tool_use_id", "toolCallId")


def _own(one: Mapping[str, Any]) -> Iterable[Said] | None:
    kind = next((one[key] for key in _KIND if isinstance(one.get(key), str)), None)
    if kind is None or is_message(one) or _OF_SPANS & one.keys():
        return None
    flat = re.sub(r"[^a-z]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind).lower()).strip("_")
    inner = dict_of(first_of(one, "data", "payload"))
    whole = {**one, **inner}
    if flat in _CALLED:
        return _own_call(whole)
    if flat in _ANSWERED:
        return _own_result(whole)
    for words, role in ((_BY_SYSTEM, "system"), (_BY_USER, "user"), (_BY_AGENT, "assistant")):
        if flat in words:
            text = next((whole[key] for key in _TEXT if isinstance(whole.get(key), str)), None)
            return None if text is None else [{"role": role, "content": text}]
    return None


def _own_call(one: Mapping[str, Any]) -> list[Said] | None:
    tool = next((one[key] for key in _TOOL if isinstance(one.get(key), str)), None)
    body = next(
        (one[key] for key in ("tool", "function", "tool_call") if isinstance(one.get(key), Mapping)), one
    )
    name = tool or body.get("name")
    if not isinstance(name, str):
        return None
    number = first_of(one, *_NUMBER) or first_of(body, *_NUMBER, "id")
    return [asks(number, name, first_of(body, *_ARGUMENTS) or first_of(one, *_ARGUMENTS))]


def _own_result(one: Mapping[str, Any]) -> list[Said] | None:
    broke = one.get("error") or one.get("is_error")
    failed = broke or one.get("ok") is False or one.get("success") is False or one.get("status") == "error"
    given = first_of(one, *_GIVEN)
    if given is None and not (isinstance(broke, str) or set(_GIVEN) & one.keys()):
        return None
    tool = next((one[key] for key in _TOOL if isinstance(one.get(key), str)), None)
    return [gives(first_of(one, *_NUMBER), tool, broke if given is None else given, failed)]


_FORMS: tuple[Callable[[Mapping[str, Any]], Iterable[Said] | None], ...] = (
    _adk,
    _codex,
    _claude,
    _item,
    _openhands,
    _own,
    _langgraph,
)
