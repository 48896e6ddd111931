"""What the attributes of a span say of a model's or a tool's work.

Read are OpenTelemetry's GenAI conventions, the present ones and those before them (messages as events, or as
numbered attributes), OpenInference's, MLflow's, Traceloop's, and those of Vercel's AI SDK.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trace_assets.formats.spans.chat_forms import Said, answered, asked, parsed, text_of
from trace_assets.formats.spans.span import Kind, ToolUse, kind_of, tokens_in

Event = tuple[str, Mapping[str, Any]]
"""An event's name and attributes."""

_KIND = (
    "openinference.span.kind",
    "gen_ai.operation.name",
    "langfuse.observation.type",
    "mlflow.spanType",
    "traceloop.span.kind",
    "llm.request.type",
)
_IN = ("gen_ai.input.messages", "langfuse.observation.input", "ai.prompt.messages", "ai.prompt")
_OUT = ("gen_ai.output.messages", "langfuse.observation.output")
_WHOLE_IN = ("mlflow.spanInputs", "input.value", "traceloop.entity.input", "gen_ai.prompt", "input")
_WHOLE_OUT = ("mlflow.spanOutputs", "output.value", "traceloop.entity.output", "gen_ai.completion", "output")
_TOOL_NAME = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "traceloop.entity.name")
_TOOL_ID = ("gen_ai.tool.call.id", "tool_call.id", "tool.id", "ai.toolCall.id")
_TOOL_IN = (
    "gen_ai.tool.call.arguments",
    "ai.toolCall.args",
    "tool_call.function.arguments",
    "tool.parameters",
)
_TOOL_OUT = ("gen_ai.tool.call.result", "ai.toolCall.result", "tool.output")
_MODEL = (
    "gen_ai.response.model",
    "gen_ai.request.model",
    "llm.model_name",
    "ai.model.id",
    "langfuse.observation.model.name",
    "mlflow.chat.model",
    "model",
)
_SESSION = (
    "session.id",
    "gen_ai.conversation.id",
    "langfuse.session.id",
    "langsmith.metadata.session_id",
    "langsmith.metadata.thread_id",
    "mlflow.trace.session",
    "thread.id",
)
_ROLE_EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}


def read_kind(attributes: Mapping[str, Any], name: str = "") -> Kind:
    """Return what did a span."""
    found = kind_of(*(attributes.get(key) for key in _KIND))
    if found != "other":
        return found
    if any(key in attributes for key in ("gen_ai.tool.name", "ai.toolCall.name", "tool.name")):
        return "tool"
    if any(key in attributes for key in ("gen_ai.request.model", "llm.model_name", "ai.model.id")):
        return "model"
    first = name.split(" ")[0].lower()
    return kind_of(first) if first in ("chat", "execute_tool", "invoke_agent", "text_completion") else "other"


def read_messages(
    attributes: Mapping[str, Any], events: Iterable[Event] = ()
) -> tuple[tuple[Said, ...], tuple[Said, ...]]:
    """Return what was asked and what was said."""
    told = list(events)
    nested = {**attributes}
    for name, own in told:
        if name.startswith("gen_ai.client.inference") or "gen_ai.input.messages" in own:
            nested.update(own)
    given, gave = _first(nested, _IN), _first(nested, _OUT)
    fed, said = (asked(given) if given is not None else []), (answered(gave) if gave is not None else [])
    system = parsed(nested.get("gen_ai.system_instructions"))
    if fed and system and fed[0]["role"] != "system":
        fed = [{"role": "system", "content": "\n".join(one["content"] or "" for one in asked(system))}, *fed]
    fed = fed or _numbered(nested, "llm.input_messages") or _numbered(nested, "gen_ai.prompt")
    said = said or _numbered(nested, "llm.output_messages") or _numbered(nested, "gen_ai.completion")
    said = said or _of_vercel(nested)
    if not fed and not said:
        fed, said = _of_events(told)
    if not fed:
        fed = asked(_first(nested, _WHOLE_IN))
    if not said:
        said = answered(_first(nested, _WHOLE_OUT))
    return tuple(fed), tuple(said)


def read_tool(attributes: Mapping[str, Any], name: str) -> ToolUse:
    """Return what a tool's span says."""
    given, gave = _first(attributes, _TOOL_IN), _first(attributes, _TOOL_OUT)
    if given is None:
        given = _first(attributes, _WHOLE_IN)
    if gave is None:
        gave = parsed(_first(attributes, _WHOLE_OUT))
        gave = gave["content"] if isinstance(gave, Mapping) and set(gave) >= {"content", "type"} else gave
    number = _first(attributes, _TOOL_ID)
    called = str(_first(attributes, _TOOL_NAME) or name.removeprefix("execute_tool ").removesuffix(".tool"))
    return ToolUse(called, None if number is None else str(number), parsed(given), gave)


def read_model(attributes: Mapping[str, Any]) -> tuple[str | None, tuple[int | None, int | None]]:
    """Return a model's name and the tokens it took."""
    name = _first(attributes, _MODEL)
    for begin in ("gen_ai.usage.", "llm.token_count.", "ai.usage.", "llm.usage."):
        own = {key.removeprefix(begin): value for key, value in attributes.items() if key.startswith(begin)}
        found = tokens_in(own)
        if found != (None, None):
            return _name(name), found
    usage = parsed(attributes.get("mlflow.chat.tokenUsage"))
    return _name(name), tokens_in(usage) if isinstance(usage, Mapping) else (None, None)


def read_session(attributes: Mapping[str, Any]) -> str | None:
    """Return the conversation that a span belongs to."""
    found = _first(attributes, _SESSION)
    return None if found is None else str(found)


def read_scores(events: Iterable[Event]) -> dict[str, Any]:
    """Return the results of evaluations that were recorded as events."""
    found = {}
    for name, own in events:
        if name == "gen_ai.evaluation.result":
            value = own.get("gen_ai.evaluation.score.value", own.get("gen_ai.evaluation.score.label"))
            found[str(own.get("gen_ai.evaluation.name", "score"))] = value
    return found


def flat(value: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Return nested attributes under dotted names; lists stay as they are.

    >>> flat({"llm": {"model_name": "m", "input_messages": [1]}})
    {'llm.model_name': 'm', 'llm.input_messages': [1]}
    """
    found: dict[str, Any] = {}
    for key, one in value.items():
        name = f"{before}{key}"
        if isinstance(one, Mapping) and one:
            found.update(flat(one, f"{name}."))
        else:
            found[name] = one
    return found


def _name(value: Any) -> str | None:
    value = value[0] if isinstance(value, list) and value else value
    return value if isinstance(value, str) and value else None


def _first(attributes: Mapping[str, Any], names: Iterable[str]) -> Any:
    return next((attributes[name] for name in names if attributes.get(name) not in (None, "")), None)


def _numbered(attributes: Mapping[str, Any], name: str) -> list[Said]:
    """Return messages that stand as a list, or as attributes `name.0.role` or `name.0.message.role`."""
    value = parsed(attributes.get(name))
    if not isinstance(value, list):
        rows: dict[int, dict[str, Any]] = {}
        begin = f"{name}."
        for key, one in attributes.items():
            if key.startswith(begin):
                number, _, rest = key.removeprefix(begin).partition(".")
                if number.isdigit() and rest:
                    rows.setdefault(int(number), {})[rest] = one
        value = [rows[number] for number in sorted(rows)]
    return [said for one in value if isinstance(one, Mapping) for said in _numbered_message(one)]


def _numbered_message(row: Mapping[str, Any]) -> list[Said]:
    body = row.get("message") if isinstance(row.get("message"), Mapping) else row
    assert isinstance(body, Mapping)
    one = {key.removeprefix("message."): value for key, value in flat(body).items()}
    calls = []
    for call in _rows(one, "tool_calls"):
        own = {
            key.removeprefix("tool_call.").removeprefix("function."): value
            for key, value in flat(call).items()
        }
        calls.append({"id": own.get("id"), "name": own.get("name"), "arguments": own.get("arguments")})
    if one.get("function_call_name"):
        given = one.get("function_call_arguments_json")
        calls.append({"id": None, "name": one["function_call_name"], "arguments": given})
    parts = []
    for part in _rows(one, "contents"):
        own = {key.removeprefix("message_content."): value for key, value in flat(part).items()}
        parts.append(text_of(own["text"]) if "text" in own else f"[{own.get('type', 'part')}]")
    content = one.get("content") if one.get("content") is not None else "\n".join(parts) or None
    said = {key: one[key] for key in ("tool_call_id", "name") if one.get(key)}
    row_said = {**said, "role": one.get("role") or "assistant", "content": content, "tool_calls": calls}
    return asked([{key: value for key, value in row_said.items() if value not in ([],)}])


def _rows(one: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    value = parsed(one.get(name))
    if isinstance(value, list):
        return [row for row in value if isinstance(row, Mapping)]
    rows: dict[int, dict[str, Any]] = {}
    for key, item in one.items():
        if key.startswith(f"{name}."):
            number, _, rest = key.removeprefix(f"{name}.").partition(".")
            if number.isdigit() and rest:
                rows.setdefault(int(number), {})[rest] = item
    return [rows[number] for number in sorted(rows)]


def _of_vercel(attributes: Mapping[str, Any]) -> list[Said]:
    text, calls = attributes.get("ai.response.text"), parsed(attributes.get("ai.response.toolCalls"))
    if not text and not isinstance(calls, list):
        return []
    made = [
        {
            "id": one.get("toolCallId"),
            "name": one.get("toolName"),
            "arguments": one.get("input", one.get("args")),
        }
        for one in (calls if isinstance(calls, list) else ())
        if isinstance(one, Mapping)
    ]
    return [{"role": "assistant", "content": text or None, **({"tool_calls": made} if made else {})}]


def _of_events(events: Iterable[Event]) -> tuple[list[Said], list[Said]]:
    """Return messages that were recorded as one event each."""
    fed: list[Said] = []
    said: list[Said] = []
    for name, own in events:
        body = parsed(own.get("body", own.get("event_body")))
        body = body if isinstance(body, Mapping) else own
        if name in _ROLE_EVENTS:
            role = str(body.get("role") or _ROLE_EVENTS[name])
            row = {key: parsed(body[key]) if key == "tool_calls" else body[key] for key in body}
            fed += asked([{**row, "role": role}])
        elif name == "gen_ai.choice":
            message = parsed(body.get("message", body.get("gen_ai.event.content", body)))
            said += answered(message)
        elif name in ("gen_ai.content.prompt", "gen_ai.content.completion"):
            value = own.get("gen_ai.prompt", own.get("gen_ai.completion"))
            (fed if name.endswith("prompt") else said).extend(
                asked(value) if name.endswith("prompt") else answered(value)
            )
    return fed, said
