"""Traces of programs at work: spans of OpenTelemetry, and of the tools that keep them.

Read are spans of the GenAI conventions and of OpenInference (OTLP as JSON, the SDK's and Phoenix's), and what
Langfuse, LangSmith and MLflow export, as one
document, an array or JSON lines. A trace becomes a trajectory; traces of one session of which each holds the
whole conversation so far become one. How an episode was judged is taken from scores, feedback or assessments
with such a name as `reward`, `success` or `correctness`, and from metadata, where `task_id`, `trial`,
`target`, `reward`, `success`, `instruction`, `expected_actions`, `expected_outputs` and `domain_policy` are
known by their names.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from trace_assets.formats.batch_files import batch_of
from trace_assets.formats.documents import first_object, outermost, read_documents
from trace_assets.formats.openai_chat import read_conversation
from trace_assets.formats.problem import UNUSABLE, Problem, Reading
from trace_assets.formats.spans.chat_forms import Said, text_of
from trace_assets.formats.spans.langfuse import is_langfuse, read_langfuse
from trace_assets.formats.spans.langsmith import is_langsmith, read_langsmith
from trace_assets.formats.spans.mlflow import is_mlflow, read_mlflow
from trace_assets.formats.spans.opentelemetry import is_otlp, is_span, read_otlp, read_span
from trace_assets.formats.spans.span import Span, Trace, date_of, facts_in, verdict_in
from trace_assets.formats.spans.traces import Row, Traces
from trace_assets.formats.task_facts import facts_of
from trace_assets.records import Task, Trajectory
from trace_assets.untrusted.allowance import OF_MACHINE, Allowance, open_lines
from trace_assets.untrusted.json_text import json_cost, too_dear

_HEAD = 1 << 16
_OTLP = ("resourceSpans", "resource_spans")
_MANY = ("data", "traces", "runs", "spans")
_FORMS: tuple[tuple[Callable[[Row], bool], Callable[[Row, Traces], None]], ...] = (
    (is_otlp, read_otlp),
    (is_mlflow, read_mlflow),
    (is_langsmith, read_langsmith),
    (is_span, read_span),
    (is_langfuse, read_langfuse),
)
"""How a row is known, and who reads it; the first that fits."""


class _Told(NamedTuple):
    """A trace with its conversation."""

    trace: Trace
    said: list[Said]


class SpanImporter:
    """Reads traces of OpenTelemetry and of Langfuse, Phoenix, LangSmith and MLflow."""

    name = "spans"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Tell whether the first thing in the file is a span, or a trace of them."""
        if head.lstrip()[:1] not in (b"[", b"{"):
            return False
        row = outermost(head)
        first = row[0] if isinstance(row, list) and row else row
        return any(_reader(one) is not None for one in _page(first)[:1])

    def read(self, path: Path, allowance: Allowance = OF_MACHINE) -> Iterator[Task | Trajectory | Problem]:
        """Yield the traces in the order of the file, each task once."""
        reading, traces, cost = Reading(path), Traces(), 0
        for row in read_documents(path, allowance, _listing(path)):
            if isinstance(row, Problem):
                yield row
                continue
            position, value = row
            page = [(one, read) for one in _page(value) if (read := _reader(one)) is not None]
            if not page:
                message = "it is no span and no trace; it is left out"
                yield Problem(path=str(path), position=position, message=message)
                continue
            cost += json_cost(msgspec.json.encode(value))
            if cost > allowance.row:
                # The spans of a trace may lie anywhere, so all of them are held.
                message = f"{too_dear(cost, allowance.row)} up to here, and what comes after is not read; "
                message += "split the file, each trace in one part"
                yield Problem(path=str(path), position=position, message=message, kind="too_large")
                break
            for one, read in page:
                try:
                    read(one, traces)
                except UNUSABLE as error:
                    yield reading.left_out(error, position, "it")
        yield from _all(path, traces, reading)


def _listing(path: Path) -> tuple[str, ...]:
    """Return the keys of lists that a document is read through, one element at a time."""
    with open_lines(path) as stream:
        first = first_object(stream.read(_HEAD))
    return _OTLP if is_otlp(first) else () if _reader(first) is not None else _MANY


def _page(value: Any) -> list[Any]:
    """Return the rows that a value holds: itself, or what one page of an interface's answer lists."""
    if isinstance(value, dict) and _reader(value) is None:
        listed = next((value[key] for key in _MANY if isinstance(value.get(key), list)), None)
        return [value] if listed is None else listed
    return [value]


def _reader(row: Any) -> Callable[[Row, Traces], None] | None:
    known = (read for fits, read in _FORMS if isinstance(row, dict) and fits(row))
    return next(known, None)


def _all(path: Path, traces: Traces, reading: Reading) -> Iterator[Task | Trajectory | Problem]:
    told: list[_Told] = []
    for trace in traces:
        if not trace.spans and not trace.asked:
            continue  # scores of a trace that is not here
        try:
            told.append(_Told(trace, conversation(trace)))
        except UNUSABLE as error:
            yield reading.left_out(error, f"trace {trace.trace_id}", "this trace")
    for one in _sessions(told):
        position = f"trace {one.trace.trace_id}"
        try:
            row = _row(one, path)
            trajectory, notice = read_conversation(path, 0, row)
            facts = facts_of(row)
        except UNUSABLE as error:
            yield reading.left_out(error, position, "this trace")
            continue
        trajectory = trajectory.model_copy(update={"source": f"spans:{path.name}"})
        yield from reading.told(trajectory, notice, position, facts)


def _sessions(told: list[_Told]) -> Iterator[_Told]:
    """Yield traces; those that a later one of their session holds whole are told together with it."""
    groups: dict[str, list[_Told]] = defaultdict(list)
    for one in told:
        if one.trace.session:
            groups[one.trace.session].append(one)
    taken = set[int]()
    for group in groups.values():
        group.sort(key=lambda one: _start(one.trace))
        for before, later in pairwise(group):
            if continues(before.said, later.said):
                taken.add(id(before.trace))
                later.trace.spans += before.trace.spans
                later.trace.about += before.trace.about
                later.trace.scores = {**before.trace.scores, **later.trace.scores}
                later.trace.task = later.trace.task or before.trace.task
    yield from (one for one in told if id(one.trace) not in taken)


def _row(one: _Told, path: Path) -> dict[str, Any]:
    """Return a trace as a line of the chat form."""
    trace = one.trace
    spans = sorted(trace.spans, key=lambda span: span.start)
    models = [span for span in spans if span.kind == "model"]
    roots = [span for span in spans if span.parent_id is None]
    known = facts_in([*trace.about, *(span.about for span in (*roots, *spans))])
    reward, success = verdict_in(trace.scores)
    names = Counter(span.model for span in models if span.model)
    error = trace.error or next((span.error for span in roots if span.error), None)
    ends = [span.end for span in spans if span.end]
    start = _start(trace)
    return {
        "messages": one.said,
        "trajectory_id": trace.trace_id,
        "target": f"spans:{trace.place or batch_of(path)}",
        "task_id": trace.task,
        "model": names.most_common(1)[0][0] if names else None,
        "reward": reward,
        "success": success,
        "scores": trace.scores or None,
        "usage": {
            "prompt_tokens": _sum(span.tokens[0] for span in models),
            "completion_tokens": _sum(span.tokens[1] for span in models),
        },
        "cost": _sum(span.cost for span in models),
        "error": error,
        "seconds": max(ends) - start if ends and start and max(ends) >= start else None,
        "date": date_of(start),
        "metadata": _metadata(trace),
        **{name: value for name, value in known.items() if value is not None},
    }


def _metadata(trace: Trace) -> dict[str, Any]:
    failed = sum(span.error is not None for span in trace.spans)
    found = {"session": trace.session, "failed_spans": failed or None}
    return {name: value for name, value in found.items() if value is not None}


def _start(trace: Trace) -> float:
    return min((span.start for span in trace.spans if span.start), default=0.0)


def _sum(values: Any) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers else None


NOTHING = (
    "its spans hold no messages; have their contents recorded (for OpenTelemetry's GenAI spans set "
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true)"
)


def conversation(trace: Trace) -> list[Said]:
    """Return a trace's messages in the chat form.

    Raises:
        ValueError: It holds none; the message says so.
    """
    spans = sorted(trace.spans, key=lambda one: one.start)
    tools = [one for one in spans if one.tool is not None]
    threads = _Threads()
    for span in spans:
        if span.kind == "model" and (span.asked or span.said):
            threads.add(span)
    thread = threads.longest()
    if not any(one["role"] == "assistant" for one in thread):
        thread = _without_models(trace, spans, tools) or thread
    else:
        thread = [*thread, *_unanswered(thread, tools)]
    if not thread:
        raise ValueError(NOTHING)
    failed = {one.tool.call_id for one in tools if one.tool and one.error and one.tool.call_id}
    return [
        {**said, "is_error": True} if said["role"] == "tool" and said.get("tool_call_id") in failed else said
        for said in thread
    ]


def continues(before: Sequence[Said], later: Sequence[Said]) -> bool:
    """Tell whether a conversation begins with all of another one."""
    first, second = _marks(before), _marks(later)
    return bool(first) and len(second) >= len(first) and second[: len(first)] == first


class _Threads:
    """Conversations that grow with the calls that go on with them."""

    def __init__(self) -> None:
        self._threads: list[list[Said]] = []
        self._by_marks: dict[int, int] = {}
        self._by_call: dict[str, int] = {}

    def add(self, span: Span) -> None:
        """Take in a model's call."""
        fed, said = list(span.asked), list(span.said)
        # Of the conversations that it begins with, the longest; found by what stands for each beginning.
        going_on = [self._by_marks[mark] for mark in _rolling(fed) if mark in self._by_marks]
        place = going_on[-1] if going_on else None
        if place is not None:
            self._threads[place] = [*fed, *said]
        elif fed and all(one["role"] == "tool" for one in fed):
            answered = [self._by_call.get(str(one.get("tool_call_id"))) for one in fed]
            place = next((one for one in answered if one is not None), None)
            if place is not None:
                self._threads[place] = [*self._threads[place], *fed, *said]
        if place is None:
            place = len(self._threads)
            self._threads.append([*fed, *said])
        marks = _rolling(self._threads[place])
        if marks:
            self._by_marks[marks[-1]] = place
        for call in (self._threads[place][-1].get("tool_calls") or ()) if self._threads[place] else ():
            if call.get("id"):
                self._by_call[str(call["id"])] = place

    def longest(self) -> list[Said]:
        """Return the longest of them, the first of equals."""
        return max(self._threads, key=len, default=[])


def _rolling(thread: Sequence[Said]) -> list[int]:
    """Return a number for each beginning of a conversation."""
    found: list[int] = []
    for mark in _marks(thread):
        found.append(hash((found[-1] if found else 0, mark)))
    return found


def _unanswered(thread: Sequence[Said], tools: Sequence[Span]) -> Iterable[Said]:
    """Yield the results of the last message's calls, which no model was given any more."""
    used: set[str] = set()
    for call in thread[-1].get("tool_calls") or ():
        matching = [
            one
            for one in tools
            if one.tool is not None
            and one.span_id not in used
            and (
                one.tool.call_id == call["id"]
                if call.get("id") and one.tool.call_id
                else one.tool.name == call.get("name")
            )
        ]
        if matching:
            last = matching[-1]
            used.add(last.span_id)
            yield _result(last, call.get("id"))


def _without_models(trace: Trace, spans: Sequence[Span], tools: Sequence[Span]) -> list[Said]:
    """Return what a trace tells whose models were not recorded: the question, the tools' use, the answer."""
    agents = [one for one in spans if one.kind != "tool" and (one.asked or one.said)]
    root = next((one for one in agents if one.parent_id is None), agents[0] if agents else None)
    asked = list(trace.asked or (root.asked if root else ()))
    said = list(trace.said or (root.said if root else ()))
    used = []
    for number, one in enumerate(tools):
        if one.tool is None:
            continue
        name = one.tool.call_id or f"span_{number}"
        call = {"id": name, "name": one.tool.name or one.name, "arguments": one.tool.arguments}
        used += [{"role": "assistant", "content": None, "tool_calls": [call]}, _result(one, name)]
    if continues(asked, said):
        return said
    return [*asked, *used, *said] if (asked or used) and (said or used) else []


def _result(span: Span, name: str | None) -> Said:
    assert span.tool is not None
    content = text_of(span.tool.result)
    if span.error and not content:
        content = span.error
    return {
        "role": "tool",
        "tool_call_id": name,
        "name": span.tool.name,
        "content": content,
        "is_error": bool(span.error),
    }


def _marks(thread: Sequence[Said]) -> list[tuple[str, str]]:
    """Return what messages are compared by: programs put back what they sent in slightly other forms."""
    found = []
    for one in thread:
        if one["role"] == "system":
            continue
        calls = ",".join(str(call.get("name")) for call in one.get("tool_calls") or ())
        content = one.get("content")
        found.append((one["role"], calls or " ".join(text_of(content).split())))
    return found
