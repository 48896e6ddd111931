"""A transcript as a model is shown it: one JSON line a message, blind, and compacted by a stated rule.

The compaction rule. A transcript that fits its budget is shown whole. Otherwise the first of these steps
that makes it fit is taken, each including those before it:

1. tool results longer than 2,000 characters keep their first two thirds and last third of 2,000;
2. the same with 500;
3. the same with 160, and the other texts and arguments with 800;
4. messages in the middle are left out: as many as fit are kept from the beginning and, alternately, from the
   end, the first and the last always; one line says which were left out and which tools were called there.

Every cut is marked in the text with the number of characters that are missing, and counted in the table
`shown_transcripts`. `prompts/transcript.md` tells the model the same.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trace_assets.records import Message, ShownTranscript, Trajectory

BYTES_A_TOKEN = 4
"""English, JSON and code are close to it with current tokenizers; a forecast and budgets need no more."""


@dataclass(frozen=True)
class Step:
    """One step of the compaction rule: longest result and longest other text, in characters."""

    name: str
    result: int | None = None
    text: int | None = None


STEPS = (
    Step("whole"),
    Step("results of 2000", 2000),
    Step("results of 500", 500),
    Step("results of 160, texts of 800", 160, 800),
)
MIDDLE = "middle left out"


@dataclass(frozen=True)
class View:
    """What a model is shown of one trajectory.

    Attributes:
        text: One JSON object a line.
        indices: Messages that are in it, the only ones that evidence may cite.
        record: How it came about.
    """

    text: str
    indices: frozenset[int]
    record: ShownTranscript


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text takes: its UTF-8 bytes over four, rounded up.

    >>> estimate_tokens("12345")
    2
    """
    return -(-len(text.encode()) // BYTES_A_TOKEN)


def view(trajectory: Trajectory, tokens: int) -> View:
    """Return what a model may see of a trajectory, within a budget.

    Args:
        trajectory: Blind or not: only its messages are used.
        tokens: Budget in estimated tokens; always at least the first and last message are shown.
    """
    redacted = redact(trajectory.messages)
    step, lines = STEPS[0], list[str]()
    shortened = 0
    for step in STEPS:
        drawn = [_line(index, message, step) for index, message in redacted.messages]
        lines, shortened = [line for line, _ in drawn], sum(cut for _, cut in drawn)
        if estimate_tokens("\n".join(lines)) <= tokens:
            break
    indices = [index for index, _ in redacted.messages]
    rule = step.name
    if estimate_tokens("\n".join(lines)) > tokens and len(lines) > 2:
        first, last = _ends(lines, tokens)
        if first + last < len(lines):
            gap = _gap(redacted.messages[first : len(lines) - last])
            shortened = sum(cut for _, cut in [*drawn[:first], *drawn[len(drawn) - last :]])
            lines = [*lines[:first], gap, *lines[len(lines) - last :]]
            indices = [*indices[:first], *indices[len(indices) - last :]]
            rule = MIDDLE
    text = "\n".join(lines)
    return View(text, frozenset(indices), _record(trajectory, redacted, text, rule, len(indices), shortened))


def _record(
    trajectory: Trajectory, redacted: Redacted, text: str, rule: str, shown: int, shortened: int
) -> ShownTranscript:
    return ShownTranscript(
        trajectory_id=trajectory.trajectory_id,
        rule=rule,
        n_messages=len(trajectory.messages),
        n_shown=shown,
        n_shortened=shortened,
        n_withheld=len(redacted.withheld),
        n_left_out=len(redacted.messages) - shown,
        tokens=estimate_tokens(text),
        view_hash=hashlib.sha256(text.encode()).hexdigest()[:16],
    )


def _ends(lines: Sequence[str], tokens: int) -> tuple[int, int]:
    """Return how many lines are kept from the beginning and from the end."""
    first = last = 1
    left = tokens - estimate_tokens(lines[0]) - estimate_tokens(lines[-1]) - 60  # the line about the gap
    while first + last < len(lines):
        line = lines[first] if first <= last else lines[-last - 1]
        left -= estimate_tokens(line) + 1
        if left < 0:
            break
        if first <= last:
            first += 1
        else:
            last += 1
    return first, last


def _gap(left_out: Sequence[tuple[int, Message]]) -> str:
    calls: dict[str, int] = {}
    for _, message in left_out:
        for call in message.tool_calls:
            calls[call.name] = calls.get(call.name, 0) + 1
    return _json({"left_out": [left_out[0][0], left_out[-1][0]], "calls_there": calls})


def _line(index: int, message: Message, step: Step) -> tuple[str, bool]:
    """Return a message as one line, and whether something was left out of it."""
    row: dict[str, Any] = {"index": index, "role": message.role}
    limit = step.result if message.role == "tool" else step.text
    content, cut = _shorten(message.content or "", limit)
    if message.role == "tool":
        row |= {"tool": message.tool_name or "", **({"error": True} if message.is_error else {})}
    if message.requestor == "user" or (message.role == "user" and message.tool_calls):
        row["called_by"] = "user"
    row["content"] = content
    if message.tool_calls:
        calls = []
        for call in message.tool_calls:
            arguments: Any = call.arguments
            if step.text is not None and len(_json(arguments)) > step.text:
                arguments, cut = _shorten(_json(arguments), step.text)[0], True
            calls.append({"tool": call.name, "arguments": arguments})
        row["calls"] = calls
    return _json(row), cut


def _shorten(text: str, limit: int | None) -> tuple[str, bool]:
    """Return a text of about `limit` characters, its middle left out.

    >>> _shorten("abcdefghijklmnopqrstuvwxyz" * 4, 9)
    ('abcdef[... 95 characters left out ...]xyz', True)
    """
    if limit is None or len(text) <= limit + 40:  # the mark itself takes some
        return text, False
    head = limit * 2 // 3
    tail = limit - head
    return f"{text[:head]}[... {len(text) - limit} characters left out ...]{text[-tail:]}", True


def _json(value: Any) -> str:
    """Return JSON on one line, for readers too that break lines at Unicode's own separators."""
    text = json.dumps(value, ensure_ascii=False)
    for mark in "\x85\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


# What is taken out of a transcript before a labeller sees it: everything that may give the outcome away.


STRUCK = "[struck out]"

_MARK = re.compile(r"#{2,}[\w-]+#{2,}|<\|?(?:end_of_(?:conversation|episode)|done)\|?>", re.IGNORECASE)
_VERDICT = re.compile(
    r"""["']?\b(?:reward|verdict|final[ _]score|(?:task|episode)[ _](?:success|reward|outcome)"""
    r"""|is[ _]correct|evaluation[ _](?:result|outcome)|ground[ _]truth)\b["']?\s*"""
    r"""(?:[:=]|\bis\b)[\s:=]*["']?[-+\w.]+["']?"""
    r"""|\b(?:task|episode|conversation|simulation)\s+(?:was\s+|has\s+|is\s+)?"""
    r"""(?:completed\s+successfully|succeeded|failed|passed|terminated|truncated|over)\b"""
    r"""|\bmax(?:imum)?[ _](?:number[ _]of[ _])?(?:steps|turns)[ _](?:was[ _])?(?:reached|exceeded)\b""",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Redacted:
    """A transcript without giveaways.

    Attributes:
        messages: (index in the trajectory, message), in order; withheld ones are missing.
        withheld: (index, words that were taken out), for the leak meter; never shown.
    """

    messages: tuple[tuple[int, Message], ...]
    withheld: tuple[tuple[int, str], ...]


def redact(messages: Sequence[Message]) -> Redacted:
    """Return what of a transcript may be shown to a labeller.

    Args:
        messages: All of a trajectory's messages.

    >>> user, agent = Message(role="user", content="hi ###STOP###"), Message(role="assistant", content="bye")
    >>> redact([user, agent, user]).messages[0][1].content
    'hi [struck out]'
    >>> redact([user, agent, user]).withheld
    ((0, '###STOP###'), (2, 'hi ###STOP###'))
    """
    last = max((i for i, one in enumerate(messages) if one.role == "assistant"), default=-1)
    shown: list[tuple[int, Message]] = []
    withheld: list[tuple[int, str]] = []
    for index, message in enumerate(messages):
        own_result = message.role == "tool" and message.requestor == "assistant"
        if last >= 0 and index > last and not own_result:
            withheld.append((index, message.content or ""))
        elif message.role == "assistant":
            shown.append((index, message))
        else:
            kept, taken = strike(message.content or "")
            if taken:
                withheld.append((index, taken))
                message = message.model_copy(update={"content": kept})
            shown.append((index, message))
    return Redacted(tuple(shown), tuple(withheld))


def strike(text: str) -> tuple[str, str]:
    """Return a text without marks and verdicts, and what was taken out of it.

    >>> strike('{"ok": true, "reward": 1.0}')
    ('{"ok": true, [struck out]}', '"reward": 1.0')
    >>> strike("You have 500 reward points; the order status is failed.")
    ('You have 500 reward points; the order status is failed.', '')
    """
    taken: list[str] = []

    def keep(found: re.Match[str]) -> str:
        taken.append(found.group())
        return STRUCK

    kept = _VERDICT.sub(keep, _MARK.sub(keep, text))
    return kept, " ".join(taken)
