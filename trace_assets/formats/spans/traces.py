"""Traces on their way from rows to conversations, and what most forms of them have in common."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trace_assets.formats.spans.attributes import (
    Event,
    read_kind,
    read_messages,
    read_model,
    read_scores,
    read_session,
    read_tool,
)
from trace_assets.formats.spans.span import Span, Trace, seconds_of

Row = Mapping[str, Any]
_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")


class Traces:
    """Traces by name, in the order in which they are met."""

    def __init__(self) -> None:
        self._found: dict[str, Trace] = {}

    def __getitem__(self, trace_id: str) -> Trace:
        """Return a trace, a new one where it is met first."""
        if trace_id not in self._found:
            self._found[trace_id] = Trace(trace_id)
        return self._found[trace_id]

    def __iter__(self) -> Iterator[Trace]:
        return iter(self._found.values())

    def add(self, span: Span) -> Trace:
        """Put a span into its trace, and return that."""
        trace = self[span.trace_id]
        trace.spans.append(span)
        return trace


def telemetry_span(
    ids: tuple[str, str, str | None],
    name: str,
    times: tuple[Any, Any],
    attributes: Mapping[str, Any],
    events: Iterable[Event] = (),
    error: str | None = None,
) -> Span:
    """Return a span of OpenTelemetry's kind.

    Args:
        ids: Of its trace, of itself, and of the span above it.
        name: As its program calls it.
        times: Start and end, in any of the usual forms.
        attributes: Flat, by dotted names.
        events: What was recorded besides.
        error: What broke it.
    """
    told = list(events)
    kind = read_kind(attributes, name)
    asked, said = ((), ()) if kind == "tool" else read_messages(attributes, told)
    model, tokens = read_model(attributes)
    broke = next((own for called, own in told if called == "exception"), {})
    return Span(
        trace_id=ids[0],
        span_id=ids[1],
        parent_id=ids[2],
        name=name,
        kind=kind,
        start=seconds_of(times[0]),
        end=seconds_of(times[1]),
        asked=asked,
        said=said,
        tool=read_tool(attributes, name) if kind == "tool" else None,
        model=model,
        tokens=tokens,
        cost=number_in(attributes, ("gen_ai.usage.cost", "llm.cost.total", "gen_ai.cost.total")),
        error=None if error is None else error or str(broke.get("exception.message") or "it failed"),
        about=attributes,
    )


def tell(trace: Trace, attributes: Mapping[str, Any], events: Iterable[Event] = ()) -> None:
    """Take over what a span says of its trace as a whole."""
    trace.session = trace.session or read_session(attributes)
    trace.scores.update(read_scores(events))


def events_of(value: Any) -> list[Event]:
    """Return events as they are exported: `{name, attributes}`."""
    return [
        (str(one.get("name") or ""), one["attributes"] if isinstance(one.get("attributes"), Mapping) else {})
        for one in (value if isinstance(value, list) else ())
        if isinstance(one, Mapping)
    ]


def number_in(row: Row, names: Iterable[str]) -> float | None:
    """Return the first number among some fields."""
    for name in names:
        value = row.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None


def in_words(row: Row) -> dict[str, Any]:
    """Return a row with its keys spelled with underscores.

    >>> in_words({"parentObservationId": 1, "trace_id": 2})
    {'parent_observation_id': 1, 'trace_id': 2}
    """
    return {_HUMP.sub(lambda hump: f"_{hump[1].lower()}", str(key)): value for key, value in row.items()}


def text_or_none(value: Any) -> str | None:
    """Return a name; None where there is none."""
    return str(value) if value not in (None, "") else None
