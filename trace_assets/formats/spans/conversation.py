"""The conversation of a trace: which of its models' messages make up the agent's own, and in which order.

Agents send their whole history with each call of a model, so the last call holds nearly all of it. Calls are
threaded: one continues the thread whose messages it begins with, or whose calls its results answer. The
longest thread is the agent's; those of helpers beside it are left out. Results that no later call sent back
are taken from the tools' own spans.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trace_assets.formats.spans.chat_forms import Said, text_of
from trace_assets.formats.spans.span import Span, Trace

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
