"""Traces as MLflow writes them: `{info, data: {spans}}`, or rows of `search_traces`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trace_assets.formats.fields import dict_of, list_of
from trace_assets.formats.spans.chat_forms import answered, asked, parsed
from trace_assets.formats.spans.traces import Row, Traces, events_of, telemetry_span, tell, text_or_none
from trace_assets.untrusted.json_text import read_embedded

_EXPECTED = ("expected_response", "expected_facts", "expected_output")
_CALLS = ("expected_tool_calls", "expected_actions")


def is_mlflow(row: Row) -> bool:
    """Tell whether a row is a trace."""
    if isinstance(row.get("info"), Mapping) and isinstance(row.get("data"), Mapping):
        return "spans" in row["data"]
    spans = row.get("spans")
    return isinstance(spans, list | str) and bool({"trace_id", "request_id"} & set(row))


def read_mlflow(row: Row, traces: Traces) -> None:
    """Read one trace."""
    info = {**row, **dict_of(row.get("info"))}
    name = str(info.get("trace_id") or info.get("request_id"))
    trace = traces[name]
    own = _pairs(info.get("trace_metadata", info.get("request_metadata")))
    tags = _pairs(info.get("tags"))
    trace.about += [own, tags, {"metadata": {**tags, **own}}]
    trace.place = text_or_none(tags.get("mlflow.traceName"))
    trace.session = text_or_none(own.get("mlflow.trace.session") or tags.get("mlflow.trace.session"))
    data = {**row, **dict_of(row.get("data"))}
    trace.asked, trace.said = tuple(asked(data.get("request"))), tuple(answered(data.get("response")))
    for one in list_of(parsed(info.get("assessments"))):
        _assess(dict_of(one), trace.scores, trace.about)
    for one in list_of(parsed(data.get("spans"))):
        if not isinstance(one, Mapping):
            continue
        context = dict_of(one.get("context"))
        attributes = {key: _decoded(value) for key, value in _pairs(one.get("attributes")).items()}
        status = one.get("status", one.get("status_code"))
        code = dict_of(status).get("code", dict_of(status).get("status_code", status))
        message = dict_of(status).get("message") or one.get("status_message") or ""
        events = events_of(one.get("events"))
        trace.spans.append(
            telemetry_span(
                (
                    name,
                    str(one.get("span_id") or context.get("span_id")),
                    text_or_none(one.get("parent_span_id") or one.get("parent_id")),
                ),
                str(one.get("name") or ""),
                (
                    one.get("start_time_unix_nano") or one.get("start_time"),
                    one.get("end_time_unix_nano") or one.get("end_time"),
                ),
                attributes,
                events,
                str(message) if str(code).endswith("ERROR") else None,
            )
        )
        tell(trace, attributes, events)


def _assess(one: Row, scores: dict[str, Any], about: list[Mapping[str, Any]]) -> None:
    name = str(one.get("assessment_name") or one.get("name") or "")
    if isinstance(one.get("feedback"), Mapping):
        scores[name] = one["feedback"].get("value")
    expected = one.get("expectation")
    value = parsed(expected.get("value")) if isinstance(expected, Mapping) else None
    if name in _EXPECTED and value is not None:
        about.append({"expected_outputs": value if isinstance(value, list) else [value]})
    elif name in _CALLS and isinstance(value, list):
        about.append({"expected_actions": value})


def _pairs(value: Any) -> dict[str, Any]:
    """Return what is an object, the text of one, or a list of `{key, value}`."""
    value = parsed(value)
    if isinstance(value, Mapping):
        return dict(value)
    return {
        str(one["key"]): one.get("value")
        for one in list_of(value)
        if isinstance(one, Mapping) and "key" in one
    }


def _decoded(value: Any) -> Any:
    """Return an attribute as it was before it was written as JSON text.

    >>> _decoded('"TOOL"'), _decoded("plain"), _decoded('{"a": 1}')
    ('TOOL', 'plain', {'a': 1})
    """
    if isinstance(value, str) and value[:1] in ('"', "{", "["):
        try:
            return read_embedded(value)
        except ValueError:
            return value
    return value
