"""What Langfuse exports: whole traces, or tables of traces, observations and scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trace_assets.formats.fields import dict_of, list_of
from trace_assets.formats.spans.attributes import flat, read_kind, read_messages
from trace_assets.formats.spans.chat_forms import Said, answered, asked, parsed
from trace_assets.formats.spans.span import Kind, Span, ToolUse, Trace, kind_of, seconds_of, tokens_in
from trace_assets.formats.spans.traces import Row, Traces, in_words, number_in, text_or_none

_TYPES = frozenset(
    [
        "GENERATION",
        "SPAN",
        "EVENT",
        "AGENT",
        "TOOL",
        "CHAIN",
        "RETRIEVER",
        "EVALUATOR",
        "EMBEDDING",
        "GUARDRAIL",
    ]
)
_TRACE = frozenset({"session_id", "user_id", "release", "tags", "public", "bookmarked", "external_id"})
_ABOVE = ("parent_observation_id", "parent_id")


def is_langfuse(row: Row) -> bool:
    """Tell whether a row is a trace, an observation or a score of Langfuse."""
    own = in_words(row)
    return _has_observations(row) or _is_observation(own) or _is_score(own) or _is_head(own)


def read_langfuse(row: Row, traces: Traces) -> None:
    """Read one row."""
    own = in_words(row)
    if _is_observation(own):
        _observation(own, traces[str(own["trace_id"])])
    elif _is_score(own):
        traces[str(own["trace_id"])].scores[str(own["name"])] = _score(own)
    else:
        _trace(own, traces[str(own.get("id") or own.get("trace_id"))])


def _has_observations(row: Mapping[str, Any]) -> bool:
    """Tell whether a row lists observations as objects: agents' own logs call so what was seen, as texts."""
    there = row.get("observations")
    return isinstance(there, list) and all(isinstance(one, Mapping) for one in there)


def _is_observation(own: Row) -> bool:
    return str(own.get("type")).upper() in _TYPES and bool(own.get("trace_id")) and "start_time" in own


def _is_score(own: Row) -> bool:
    return {"trace_id", "name", "value"} <= set(own) and bool(
        {"data_type", "source", "string_value"} & set(own)
    )


def _is_head(own: Row) -> bool:
    return {"id", "timestamp"} <= set(own) and len(_TRACE & set(own)) >= 3


def _trace(own: Row, trace: Trace) -> None:
    metadata = parsed(own.get("metadata"))
    trace.about.append({"metadata": metadata})
    trace.session = trace.session or text_or_none(own.get("session_id"))
    trace.place = trace.place or text_or_none(own.get("name"))
    trace.asked, trace.said = tuple(asked(own.get("input"))), tuple(answered(own.get("output")))
    for one in list_of(own.get("observations")):
        if isinstance(one, Mapping):
            _observation({"trace_id": trace.trace_id, **in_words(one)}, trace)
    scores = own.get("scores")
    if isinstance(scores, Mapping):  # as the list of traces is saved from the browser
        for name, value in scores.items():
            trace.scores[str(name)] = value[0] if isinstance(value, list) and value else value
    for one in list_of(scores):
        if isinstance(one, Mapping) and one.get("name"):
            trace.scores[str(one["name"])] = _score(in_words(one))


def _score(own: Row) -> Any:
    kind, words = str(own.get("data_type") or "").upper(), own.get("string_value")
    if kind == "BOOLEAN" and own.get("value") in (0, 1):
        return bool(own["value"])
    return words if kind == "CATEGORICAL" and words else own.get("value")


def _observation(own: Row, trace: Trace) -> None:
    metadata = dict_of(parsed(own.get("metadata")))
    attributes = flat(dict_of(parsed(metadata.get("attributes"))))
    kind = _kind(own, attributes)
    usage = dict_of(parsed(own.get("usage_details"))) or dict_of(parsed(own.get("usage"))) or own
    cost = dict_of(parsed(own.get("cost_details")))
    fed, gave = _messages(own, attributes) if kind != "tool" else ((), ())
    failed = str(own.get("level") or "").upper() == "ERROR"
    trace.spans.append(
        Span(
            trace_id=trace.trace_id,
            span_id=str(own.get("id")),
            parent_id=next((str(own[key]) for key in _ABOVE if own.get(key)), None),
            name=str(own.get("name") or ""),
            kind=kind,
            start=seconds_of(own.get("start_time")),
            end=seconds_of(own.get("end_time")),
            asked=fed,
            said=gave,
            tool=_tool(own, metadata) if kind == "tool" else None,
            model=text_or_none(own.get("model") or own.get("provided_model_name")),
            tokens=tokens_in(usage),
            cost=number_in({**own, **cost}, ("total", "calculated_total_cost", "total_cost")),
            error=str(own.get("status_message") or "it failed") if failed else None,
            about={"metadata": metadata},
        )
    )


def _kind(own: Row, attributes: Mapping[str, Any]) -> Kind:
    """Return what did it: before it had types of its own, Langfuse called tools spans."""
    kind = kind_of(own.get("type"))
    if str(own.get("type")).upper() == "SPAN" and attributes:
        known = read_kind(attributes, str(own.get("name") or ""))
        return known if known in ("tool", "model") else kind
    return kind


def _messages(own: Row, attributes: Mapping[str, Any]) -> tuple[tuple[Said, ...], tuple[Said, ...]]:
    fed, gave = tuple(asked(own.get("input"))), tuple(answered(own.get("output")))
    if not fed and not gave and attributes:
        return read_messages(attributes)
    return fed, gave


def _tool(own: Row, metadata: Mapping[str, Any]) -> ToolUse:
    given, gave = parsed(own.get("input")), parsed(own.get("output"))
    message = gave if isinstance(gave, Mapping) and "content" in gave else {}
    number = message.get("tool_call_id") or metadata.get("tool_call_id")
    return ToolUse(str(own.get("name") or ""), text_or_none(number), given, message.get("content", gave))
