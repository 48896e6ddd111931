"""Messages as agent frameworks keep them, as messages in the chat form.

Known are the messages of Vercel's AI SDK and Mastra (`parts` with `toolCallId`), Bedrock's Converse and
Strands (`toolUse`, `toolResult`), Haystack, LlamaIndex (`blocks`), Semantic Kernel (`items`), Microsoft's
Agent Framework (`contents`), pydantic-ai (`kind` and `part_kind`), AutoGen (`type` and `source`) and of
ShareGPT (`from` and `value`). What they have in common is that a call or a result is a part of a kind that
the chat form does not have, so that a reader of the chat form sees an empty message. Entries of logs of
events are `agent_events`'s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from trace_assets.formats.agent_events import of_event
from trace_assets.formats.agent_steps import NOTE
from trace_assets.formats.fields import dict_of, first_of, objects_in
from trace_assets.formats.spans.chat_forms import parsed, text_of
from trace_assets.formats.unread import left_of

Said = dict[str, Any]
"""A message as `chat.read_chat` takes it."""

_ROLES = {
    **dict.fromkeys(("system", "developer", "systemmessage", "system-prompt"), "system"),
    **dict.fromkeys(("user", "human", "usermessage", "user_proxy", "user-prompt"), "user"),
    **dict.fromkeys(("tool", "function", "observation"), "tool"),
}
_MARKS = frozenset(
    {"parts", "toolInvocations", "blocks", "contents", "items", "Items", "_content", "tool_responses"}
)
"""Fields of messages that the chat form has not."""


def translated(entries: Iterable[Any], left: Counter[str] | None = None) -> list[Any]:
    """Return messages with those of frameworks in the chat form; the others stay as they are.

    A system message that says again what one before it said is left out: some frameworks repeat the
    instructions with every request.

    Args:
        entries: Messages.
        left: Counts, by their kind, the parts whose words are in none of the messages.

    >>> part = {"toolUse": {"toolUseId": "a", "name": "add", "input": {}}}
    >>> translated([{"role": "assistant", "content": [part]}])
    [{'role': 'assistant', 'content': None, 'tool_calls': [{'id': 'a', 'name': 'add', 'arguments': {}}]}]
    """
    told: list[Any] = []
    made: set[int] = set()
    rules: set[str] = set()
    for number, one in enumerate(entries):
        found = translation(one) if isinstance(one, Mapping) else None
        if found is None:
            told.append(one)
            continue
        if left is not None and found is not NOTE:
            left.update(left_of(one, found))
        for place, said in enumerate(found):
            if said.get("role") == "system":
                if said["content"] in rules:
                    continue
                rules.add(said["content"])
            for order, call in enumerate(said.get("tool_calls") or ()):
                if isinstance(call, dict) and "function" not in call:
                    call["id"] = str(call.get("id") or f"call_{number}_{place}_{order}")
            made.add(id(said))
            told.append(said)
    return _answering(told, made) if made else told


def translation(one: Mapping[str, Any]) -> list[Said] | None:
    """Return the messages that an entry of a framework's list stands for; None for what is no such entry."""
    if isinstance(one.get("role"), str) and not _MARKS & one.keys():
        content = one.get("content")
        if content is None or isinstance(content, str):
            return None
    for form in _FORMS:
        found = form(one)
        if found is not None:
            return found if found is NOTE else list(found)
    return of_event(one)


def _answering(told: list[Any], made: set[int]) -> list[Any]:
    """Give results that name no call that of the first open one of their tool: events often have no ids."""
    waiting: list[Said] = []
    for said in told:
        if not isinstance(said, dict):
            continue
        calls = said.get("tool_calls")
        waiting += [one for one in calls if isinstance(one, dict)] if isinstance(calls, list) else []
        if id(said) in made and said.get("role") == "tool" and said.get("tool_call_id") is None:
            name = said.get("name")
            fits = (one for one in waiting if name in (None, "", one.get("name")))
            answers = next(fits, None)
            if answers is not None:
                said["tool_call_id"] = answers.get("id")
                said["name"] = name or answers.get("name")
        waiting = [one for one in waiting if one.get("id") != said.get("tool_call_id")]
    return told


# What the forms are made of.


def _call(number: Any, name: Any, given: Any) -> Said:
    return {"id": number, "name": name, "arguments": given}


def _result(number: Any, name: Any, content: Any, failed: Any = False) -> Said:
    return {
        "role": "tool",
        "tool_call_id": None if number is None else str(number),
        "name": name,
        "content": _words(content),
        "is_error": bool(failed),
    }


def _words(value: Any) -> str:
    r"""Return what a part says; of a list the texts, if it consists of texts.

    >>> _words([{"text": "a"}, {"json": {"x": 1}}]), _words({"total": 2})
    ('a\n{"x": 1}', '{"total": 2}')
    """
    if isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
        inner = [one.get("text", one.get("json", one.get("content"))) for one in value]
        if all(one is not None for one in inner):
            return "\n".join(text_of(one) for one in inner)
    return text_of(value)


def _told(
    role: str, texts: list[str], calls: list[Said], results: list[Said], thought: str = ""
) -> list[Said]:
    """Return a message and, behind a call, the results; results that came alone stand alone."""
    said: Said = {"role": role, "content": "\n".join(texts) or None}
    if calls:
        said["tool_calls"] = calls
    if thought:
        said["reasoning"] = thought
    spoke = bool(texts or calls)
    if calls:
        return [said, *results]
    return [*results, said] if spoke or not results else results


def _role(value: Any) -> str:
    """Return a role; some write it as an object (`{"value": "user"}`, `{"Label": "user"}`)."""
    if isinstance(value, Mapping):
        value = first_of(value, "value", "label", "Label")
    return _ROLES.get(str(value or "").lower(), "assistant")


# The forms, each None for what is not its own.


def _ai_sdk(one: Mapping[str, Any]) -> Iterator[Said] | None:
    """Vercel's AI SDK, messages of the interface (versions 4 to 6), and Mastra's, whose parts lie deeper."""
    content = one.get("content")
    parts = one.get("parts", content.get("parts") if isinstance(content, Mapping) else None)
    old = objects_in(one.get("toolInvocations"))
    kinds = {str(part.get("type") or "") for part in objects_in(parts)}
    tools = any("toolCallId" in part or "toolInvocation" in part for part in objects_in(parts))
    if "role" not in one or not (
        tools or old or "step-start" in kinds or (isinstance(content, Mapping) and kinds)
    ):
        return None
    if not objects_in(parts):
        parts = [{"type": "tool-invocation", "toolInvocation": call} for call in old]
        parts += [{"type": "text", "text": content}] if isinstance(content, str) and content else []
    return _steps(_role(one["role"]), objects_in(parts))


def _steps(role: str, parts: list[Mapping[str, Any]]) -> Iterator[Said]:
    """Yield a message a step: what is said behind results belongs to the next one."""
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[Said] = []
    results: list[Said] = []
    for part in [*parts, {"type": "step-start"}]:
        kind = str(part.get("type") or "")
        if (kind == "step-start" or (kind in ("text", "reasoning") and calls)) and (texts or calls):
            yield from _told(role, texts, calls, results, "\n".join(thoughts))
            texts, thoughts, calls, results = [], [], [], []
        used = dict_of(part.get("toolInvocation")) or part
        if "toolCallId" in used:
            name = used.get("toolName") or kind.removeprefix("tool-")
            calls.append(_call(used["toolCallId"], name, first_of(used, "input", "args", "rawInput")))
            results += _outcome(used, name)
        elif kind == "reasoning":
            thoughts.append(text_of(first_of(part, "text", "reasoning")))
        elif isinstance(part.get("text"), str):  # of any kind
            texts.append(part["text"])


def _outcome(used: Mapping[str, Any], name: Any) -> Iterator[Said]:
    failed = used.get("state") in ("output-error", "output-denied") or used.get("isError")
    if used.get("errorText") is not None:
        yield _result(used["toolCallId"], name, used["errorText"], True)
        return
    given = used["output"] if "output" in used else used.get("result")
    if given is not None or used.get("state") in (
        "output-available",
        "result",
        "output-denied",
        "output-error",
    ):
        yield _result(used["toolCallId"], name, "denied" if given is None and failed else given, failed)


def _converse(one: Mapping[str, Any]) -> list[Said] | None:
    """Bedrock's Converse, and Strands."""
    parts = objects_in(one.get("content"))
    if not any({"toolUse", "toolResult", "reasoningContent"} & part.keys() for part in parts):
        return None
    texts, thoughts, calls, results = [], [], list[Said](), list[Said]()
    for part in parts:
        used, gave, thought = (
            dict_of(part.get(key)) for key in ("toolUse", "toolResult", "reasoningContent")
        )
        if used:
            calls.append(_call(used.get("toolUseId"), used.get("name"), used.get("input")))
        elif gave:
            failed = gave.get("status") == "error"
            results.append(_result(gave.get("toolUseId"), None, gave.get("content"), failed))
        elif thought:
            thoughts.append(text_of(dict_of(thought.get("reasoningText")).get("text")))
        elif part.get("text"):
            texts.append(str(part["text"]))
    return _told(_role(one.get("role")), texts, calls, results, "\n".join(thoughts))


def _haystack(one: Mapping[str, Any]) -> list[Said] | None:
    parts = objects_in(first_of(one, "_content", "content"))
    doing = any({"tool_call", "tool_call_result"} & part.keys() for part in parts)
    if not doing and "_content" not in one:
        return None
    texts, calls, results = [], list[Said](), list[Said]()
    for part in parts:
        used, gave = dict_of(part.get("tool_call")), dict_of(part.get("tool_call_result"))
        if used:
            calls.append(_call(used.get("id"), used.get("tool_name"), used.get("arguments")))
        elif gave:
            asked = dict_of(gave.get("origin"))
            results.append(
                _result(asked.get("id"), asked.get("tool_name"), gave.get("result"), gave.get("error"))
            )
        elif part.get("text"):
            texts.append(str(part["text"]))
    return _told(_role(first_of(one, "_role", "role")), texts, calls, results)


def _llama_index(one: Mapping[str, Any]) -> list[Said] | None:
    blocks = objects_in(one.get("blocks"))
    extra = dict_of(one.get("additional_kwargs"))
    if "role" not in one or not any("block_type" in block for block in blocks):
        return None
    texts = [str(block["text"]) for block in blocks if block.get("text")]
    role = _role(one["role"])
    if role == "tool":
        return [
            _result(extra.get("tool_call_id"), extra.get("name"), "\n".join(texts), extra.get("is_error"))
        ]
    calls = [
        _call(block.get("tool_call_id"), block.get("tool_name"), block.get("tool_kwargs"))
        for block in blocks
        if block.get("block_type") == "tool_call"
    ]
    for used in [] if calls else objects_in(extra.get("tool_calls")):
        inner = dict_of(used.get("function")) or used
        calls.append(_call(used.get("id"), inner.get("name"), first_of(inner, "arguments", "input")))
    thought = "\n".join(str(block["content"]) for block in blocks if block.get("block_type") == "thinking")
    return _told(role, texts, calls, [], thought)


def _text_part(part: Mapping[str, Any]) -> Any:
    return first_of(part, "text", "Text")


def _of_kinds(one: Mapping[str, Any]) -> list[Said] | None:
    """Semantic Kernel's `items` and the `contents` of Microsoft's Agent Framework, of Python and of .NET."""
    parts = objects_in(first_of(one, "contents", "items", "Items"))
    role = first_of(one, "role", "Role")
    kinds = [first_of(part, "content_type", "type", "$type") for part in parts]
    if role is None or not any(isinstance(each, str) for each in (*kinds, *map(_text_part, parts))):
        return None
    texts, calls, results = [], list[Said](), list[Said]()
    for part, kind in zip(parts, kinds, strict=True):
        flat = str(kind).lower().replace("_", "").removesuffix("content")
        number = first_of(part, "call_id", "callId", "CallId", "id", "Id")
        name = first_of(part, "function_name", "FunctionName", "name", "Name")
        if flat == "functioncall":
            calls.append(_call(number, name, first_of(part, "arguments", "Arguments")))
        elif flat == "functionresult":
            broke = first_of(part, "exception", "Exception")
            given = first_of(part, "result", "Result")
            words = dict.fromkeys(_words(each) for each in (given, broke) if each is not None)
            results.append(_result(number, name, "\n".join(words), broke))
        elif (text := _text_part(part)) is not None and "reasoning" not in flat:
            texts.append(str(text))
    return _told(_role(role), texts, calls, results)


def _pydantic_ai(one: Mapping[str, Any]) -> list[Said] | None:
    parts = objects_in(one.get("parts"))
    if one.get("kind") not in ("request", "response") or not any("part_kind" in part for part in parts):
        return None
    told: list[Said] = []
    if one.get("instructions"):
        told.append({"role": "system", "content": str(one["instructions"])})
    texts, thoughts, calls, results = [], [], list[Said](), list[Said]()
    for part in parts:
        kind, content = str(part.get("part_kind")), part.get("content")
        name, number = part.get("tool_name"), part.get("tool_call_id")
        if kind in ("system-prompt", "user-prompt") or (kind == "retry-prompt" and not name):
            inner = [text_of(each) for each in content] if isinstance(content, list) else [text_of(content)]
            told.append({"role": _ROLES.get(kind, "user"), "content": "\n".join(inner)})
        elif kind in ("tool-call", "builtin-tool-call"):
            calls.append(_call(number, name, part.get("args")))
        elif kind in ("tool-return", "builtin-tool-return", "retry-prompt"):
            failed = kind == "retry-prompt" or part.get("outcome") in ("failed", "denied")
            results.append(_result(number, name, content, failed))
        elif kind == "thinking":
            thoughts.append(text_of(content))
        elif isinstance(content, str) and one["kind"] == "response":  # of any kind
            texts.append(content)
    if one["kind"] == "request":
        return [*results, *told]
    return [*told, *_told("assistant", texts, calls, results, "\n".join(thoughts))]


_SILENT = frozenset(
    {"MemoryQueryEvent", "ModelClientStreamingChunkEvent", "UserInputRequestedEvent", "SelectSpeakerEvent"}
)
_ASKS = frozenset({"ToolCallRequestEvent", "ToolCallMessage"})
_ANSWERS = frozenset({"ToolCallExecutionEvent", "ToolCallResultMessage", "FunctionExecutionResultMessage"})
_SPEAKS = frozenset(
    {"TextMessage", "MultiModalMessage", "StopMessage", "HandoffMessage", "StructuredMessage", "ThoughtEvent"}
    | {
        "ToolCallSummaryMessage",
        "CodeGenerationEvent",
        "CodeExecutionEvent",
        "UserMessage",
        "AssistantMessage",
    }
)


def _autogen(one: Mapping[str, Any]) -> list[Said] | None:
    """AutoGen: messages and events of teams, the context of models, and tools' answers of version 0.2."""
    if isinstance(one.get("tool_responses"), list) and one["tool_responses"]:
        return [
            _result(gave.get("tool_call_id"), None, gave.get("content"))
            for gave in objects_in(one["tool_responses"])
        ]
    kind, content = one.get("type"), one.get("content")
    if "role" in one or not isinstance(kind, str):
        return None
    if kind in _SILENT:
        return NOTE
    if kind in _ASKS and not isinstance(content, list):
        return None
    if kind in _ASKS or (kind == "AssistantMessage" and isinstance(content, list)):
        calls = [
            _call(used.get("id"), used.get("name"), used.get("arguments")) for used in objects_in(content)
        ]
        return _told("assistant", [str(one["thought"])] if one.get("thought") else [], calls, [])
    if kind in _ANSWERS:
        return [
            _result(gave.get("call_id"), gave.get("name"), gave.get("content"), gave.get("is_error"))
            for gave in objects_in(content)
        ]
    if kind not in _SPEAKS or "content" not in one:
        return None
    role = "user" if kind == "UserMessage" else _role(one.get("source"))
    inner = [each for each in content if isinstance(each, str)] if isinstance(content, list) else content
    return [{"role": role, "content": "\n".join(inner) if isinstance(inner, list) else text_of(inner)}]


def _share_gpt(one: Mapping[str, Any]) -> list[Said] | None:
    if not isinstance(one.get("from"), str) or "value" not in one or "role" in one:
        return None
    role, text = one["from"].lower(), text_of(one["value"])
    if role == "function_call":
        used = dict_of(parsed(text))
        return [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [_call(None, used.get("name"), first_of(used, "arguments", "parameters"))],
            }
        ]
    if role in ("tool", "observation", "function_response"):
        return [{"role": "tool", "content": text}]
    return [{"role": _role(role), "content": text}]


_FORMS: tuple[Callable[[Mapping[str, Any]], Iterable[Said] | None], ...] = (
    _pydantic_ai,
    _ai_sdk,
    _converse,
    _haystack,
    _llama_index,
    _of_kinds,
    _autogen,
    _share_gpt,
)
