"""Runs as LangSmith exports them: one a row, or with those inside them as `child_runs`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trace_assets.formats.fields import dict_of, list_of
from trace_assets.formats.spans.chat_forms import answered, asked, parsed
from trace_assets.formats.spans.span import Span, ToolUse, kind_of, seconds_of, tokens_in
from trace_assets.formats.spans.traces import Row, Traces, number_in, text_or_none

_MODEL = ("ls_model_name", "model", "model_name", "model_id")
_SESSION = ("thread_id", "session_id", "conversation_id")


def is_langsmith(row: Row) -> bool:
    """Tell whether a row is a run."""
    return "run_type" in row and "inputs" in row


def read_langsmith(row: Row, traces: Traces, above: str | None = None) -> None:
    """Read a run, and those inside it."""
    name = above or _trace_of(row)
    trace = traces[name]
    extra = dict_of(parsed(row.get("extra")))
    metadata = dict_of(parsed(extra.get("metadata"))) or dict_of(parsed(row.get("metadata")))
    options = dict_of(extra.get("invocation_params"))
    inputs, outputs = parsed(row.get("inputs")), parsed(row.get("outputs"))
    kind = kind_of(row.get("run_type"))
    usage = dict_of(row.get("usage_metadata")) or dict_of(dict_of(outputs).get("usage_metadata")) or row
    parent = text_or_none(row.get("parent_run_id"))
    span = Span(
        trace_id=name,
        span_id=str(row.get("id")),
        parent_id=parent,
        name=str(row.get("name") or ""),
        kind="agent" if kind == "other" else kind,
        start=seconds_of(row.get("start_time")),
        end=seconds_of(row.get("end_time")),
        asked=tuple(asked(inputs)) if kind != "tool" else (),
        said=tuple(answered(outputs)) if kind != "tool" else (),
        tool=_tool(row, inputs, outputs) if kind == "tool" else None,
        model=next((str(one[key]) for one in (metadata, options) for key in _MODEL if one.get(key)), None),
        tokens=tokens_in(usage),
        cost=number_in(row, ("total_cost",)),
        error=text_or_none(row.get("error")),
        about={"metadata": metadata},
    )
    trace.spans.append(span)
    trace.session = trace.session or next((str(metadata[key]) for key in _SESSION if metadata.get(key)), None)
    if parent is None:
        trace.place = text_or_none(row.get("session_name") or row.get("project_name") or row.get("name"))
        trace.task = text_or_none(row.get("reference_example_id"))
        trace.scores.update(_feedback(row))
    for child in list_of(row.get("child_runs")):
        if isinstance(child, Mapping):
            read_langsmith(child, traces, name)


def _trace_of(row: Row) -> str:
    first = str(row.get("dotted_order") or "").partition(".")[0]
    return str(row.get("trace_id") or first[-36:] or row.get("id"))


def _tool(row: Row, inputs: Any, outputs: Any) -> ToolUse:
    given = dict_of(inputs)
    given = parsed(given["input"]) if set(given) == {"input"} else given
    gave = parsed(dict_of(outputs).get("output", outputs))
    message = dict_of(gave.get("kwargs", gave)) if isinstance(gave, Mapping) else {}
    number = message.get("tool_call_id")
    content = message.get("content", gave)
    return ToolUse(str(row.get("name") or ""), text_or_none(number), given, content)


def _feedback(row: Row) -> dict[str, Any]:
    """Return what people and judges said: the mean of each, or the last."""
    found: dict[str, Any] = {}
    for name, told in dict_of(parsed(row.get("feedback_stats"))).items():
        own = dict_of(told)
        found[str(name)] = own.get("avg", next(iter(dict_of(own.get("values"))), None))
    for one in list_of(row.get("feedback") or row.get("feedbacks")):
        if isinstance(one, Mapping) and one.get("key"):
            found[str(one["key"])] = one.get("score") if one.get("score") is not None else one.get("value")
    return {name: value for name, value in found.items() if value is not None}
