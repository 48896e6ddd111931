"""Spans as OpenTelemetry exports them: OTLP as JSON, the SDK's `to_json`, and Phoenix, much like that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trace_assets.formats.fields import dict_of, list_of
from trace_assets.formats.spans.attributes import flat
from trace_assets.formats.spans.chat_forms import parsed
from trace_assets.formats.spans.traces import (
    Row,
    Traces,
    events_of,
    in_words,
    telemetry_span,
    tell,
    text_or_none,
)

_SCOPES = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")
_FAILED = frozenset({2, "2", "ERROR", "STATUS_CODE_ERROR", "StatusCode.ERROR"})
_PLACE = ("openinference.project.name", "service.name", "langsmith.trace.session_name")


def is_otlp(row: Row) -> bool:
    """Tell whether a row holds spans as OTLP has them, or is one."""
    whole = {"resourceSpans", "resource_spans", *_SCOPES} & set(row)
    return bool(whole) or {"traceId", "spanId", "startTimeUnixNano"} <= set(row)


def read_otlp(row: Row, traces: Traces) -> None:
    """Read all spans of a row."""
    for place, span in _spans_in(row):
        attributes = flat({**place, **_attributes(span.get("attributes"))})
        events = [
            (str(one.get("name") or ""), flat(_attributes(one.get("attributes"))))
            for one in list_of(span.get("events"))
            if isinstance(one, Mapping)
        ]
        own = in_words(span)
        status = dict_of(own.get("status"))
        found = telemetry_span(
            (str(own["trace_id"]), str(own["span_id"]), text_or_none(own.get("parent_span_id"))),
            str(own.get("name") or ""),
            (own.get("start_time_unix_nano"), own.get("end_time_unix_nano")),
            attributes,
            events,
            str(status.get("message") or "") if status.get("code") in _FAILED else None,
        )
        trace = traces.add(found)
        tell(trace, attributes, events)
        trace.place = trace.place or _place(attributes)


def is_span(row: Row) -> bool:
    """Tell whether a row is a span as the SDK or Phoenix writes it."""
    context = row.get("context")
    if isinstance(context, Mapping):
        return {"trace_id", "span_id"} <= set(context)
    return {"context.trace_id", "context.span_id"} <= set(row)


def read_span(row: Row, traces: Traces) -> None:
    """Read one span."""
    context = dict_of(row.get("context"))
    ids = [context.get(name, row.get(f"context.{name}")) for name in ("trace_id", "span_id")]
    own = flat(dict_of(row.get("attributes")))
    own |= {
        key.removeprefix("attributes."): value
        for key, value in row.items()
        if key.startswith("attributes.") and value is not None
    }
    for key in [key for key in own if isinstance(own[key], Mapping)]:
        own |= flat({key: own.pop(key)})
    attributes = {**flat(dict_of(dict_of(row.get("resource")).get("attributes"))), **own}
    if row.get("span_kind"):
        attributes.setdefault("openinference.span.kind", row["span_kind"])
    status = dict_of(row.get("status"))
    failed = row.get("status_code", status.get("status_code")) in _FAILED
    message = row.get("status_message") or status.get("description") or ""
    events = [(name, flat(told)) for name, told in events_of(parsed(row.get("events")))]
    found = telemetry_span(
        (str(ids[0]), str(ids[1]), text_or_none(row.get("parent_id"))),
        str(row.get("name") or ""),
        (row.get("start_time"), row.get("end_time")),
        attributes,
        events,
        str(message) if failed else None,
    )
    trace = traces.add(found)
    tell(trace, attributes, events)
    trace.place = trace.place or _place(attributes)
    for one in list_of(parsed(row.get("annotations"))):
        if isinstance(one, Mapping) and one.get("name"):
            result = dict_of(one.get("result")) or one
            trace.scores[str(one["name"])] = result.get("score", result.get("label"))


def _spans_in(row: Row) -> Iterator[tuple[dict[str, Any], Row]]:
    """Yield (attributes of the resource, span)."""
    whole = row.get("resourceSpans", row.get("resource_spans"))
    if whole is not None:
        for one in list_of(whole):
            yield from _spans_in(dict_of(one))
        return
    if not set(_SCOPES) & set(row):
        yield {}, row
        return
    place = _attributes(dict_of(row.get("resource")).get("attributes"))
    for name in _SCOPES:
        for scope in list_of(row.get(name)):
            for span in list_of(dict_of(scope).get("spans")):
                if isinstance(span, Mapping):
                    yield place, span


def _attributes(value: Any) -> dict[str, Any]:
    """Return attributes of OTLP, `[{key, value: {stringValue: ...}}]`, as an object."""
    if isinstance(value, Mapping):
        return dict(value)
    pairs = [one for one in list_of(value) if isinstance(one, Mapping) and one.get("key")]
    return {str(one["key"]): _plain(one.get("value")) for one in pairs}


def _plain(value: Any) -> Any:
    """Return what one of OTLP's wrapped values holds.

    >>> _plain({"intValue": "7"}), _plain({"arrayValue": {"values": [{"stringValue": "a"}]}})
    (7, ['a'])
    """
    if not isinstance(value, Mapping) or len(value) != 1:
        return value
    (kind, inner), *_ = in_words(value).items()
    if kind == "int_value":
        return int(inner)
    if kind == "array_value":
        return [_plain(one) for one in list_of(dict_of(inner).get("values"))]
    if kind == "kvlist_value":
        return _attributes(dict_of(inner).get("values"))
    return inner if kind.endswith("_value") else value


def _place(attributes: Mapping[str, Any]) -> str | None:
    found = next((attributes[name] for name in _PLACE if attributes.get(name)), None)
    return None if found is None or str(found).startswith("unknown_service") else str(found)
