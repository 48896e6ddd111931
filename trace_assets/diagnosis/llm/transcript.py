"""A transcript as a model is shown it: a line or more a message, blind or whole, compacted by a stated rule.

The compaction rule. A transcript that fits its budget is shown whole. Otherwise the first of these steps
that makes it fit is taken, each including those before it:

1. a tool's answer that repeats an earlier one of the same tool word for word points at that one;
2. tool results longer than 8,000 characters keep their first two thirds and last third of 8,000, then the
   same with 4,000, 2,000, 1,000 and 500: the longest are cut first, and no more than is needed;
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
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any

from trace_assets.policies.hermes import strict_json
from trace_assets.records import Message, ShownTranscript, Trajectory

BYTES_A_TOKEN = 4
"""English, JSON and code are close to it with current tokenizers; a forecast and budgets need no more."""


@dataclass(frozen=True)
class Step:
    """One step of the compaction rule: longest result and longest other text, in characters."""

    name: str
    result: int | None = None
    text: int | None = None
    once: bool = True
    """Whether an answer that repeats an earlier one is told once."""


STEPS = (
    Step("whole", once=False),
    Step("repeats told once"),
    *(Step(f"results of {size}", size) for size in (8000, 4000, 2000, 1000, 500)),
    Step("results of 160, texts of 800", 160, 800),
)
MIDDLE = "middle left out"
ABOVE = "[as told above]"
"""Stands in a system message for lines of the policy that the prompt has told already."""
NOT_TOLD = "[this agent was not told: {}]"
"""Stands in a system message that holds most of the policy for a line of it that this run's lacks."""
BEFORE = 3
"""Lines of the policy that are repeated before a line of one run alone: they show where it belongs."""
SHORT = 80
"""Characters below which an answer that comes again is shown again."""


@dataclass(frozen=True)
class View:
    """What a model is shown of one trajectory.

    Attributes:
        text: A message begins with its number at the start of a line; its further lines are indented.
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


def view(trajectory: Trajectory, tokens: int, *, blind: bool = True, above: str = "") -> View:
    """Return what a model may see of a trajectory, within a budget.

    Args:
        trajectory: Blind or not: only its messages are used.
        tokens: Budget in estimated tokens; always at least the first and last message are shown.
        blind: Whether what may give the outcome away is withheld: always for whoever labels.
        above: The policy that stands before the transcript: system messages do not repeat it.
    """
    messages = [_without_marks(one) for one in trajectory.messages]
    redacted = redact(messages) if blind else Redacted(tuple(enumerate(messages)), ())
    if above:
        redacted = replace(redacted, messages=_without(redacted.messages, above))
    repeats = _repeats(redacted.messages)
    step, lines = STEPS[0], list[str]()
    shortened = 0
    for step in STEPS:
        drawn = [_line(index, message, step, repeats.get(index)) for index, message in redacted.messages]
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


_FORGED = re.compile(
    r"\[(struck out|as told above|this agent was not told: [^\]]*|as in message \d+|"
    r"\.\.\. [\d,]+ characters left out \.\.\.)\]"
)


def _without_marks(message: Message) -> Message:
    """Return a message whose own words are no mark of ours: an agent could hide what it left undone."""
    if message.content and _FORGED.search(message.content):
        return message.model_copy(update={"content": _FORGED.sub(r"(\1)", message.content)})
    return message


def _without(messages: Sequence[tuple[int, Message]], above: str) -> tuple[tuple[int, Message], ...]:
    """Return messages with a mark in system messages where lines stood that are told above.

    A policy in every transcript of a batch would leave no room for what happened. Lines of one run alone
    stand behind those that they follow, and lines that this run was not told are named: its agent would be
    judged by them.
    """
    systems = [
        (at, one.content) for at, (_, one) in enumerate(messages) if one.role == "system" and one.content
    ]
    told, here = _lines(above), _lines("\n".join(text for _, text in systems))
    own, untold = _differences(told, here)
    if 2 * len(untold) > len(told):  # the policy came otherwise than by this run's system messages
        untold = []
    lacks = [NOT_TOLD.format(_placed(told, place)) for place in untold]
    shown, begin = list(messages), 0
    for at, text in systems:
        lines = [line for line in text.splitlines() if line.strip()]
        kept = _own_lines(lines, [place - begin for place in own])
        begin += len(lines)
        if ABOVE in kept:
            index, message = messages[at]
            shown[at] = index, message.model_copy(update={"content": "\n".join([*kept, *lacks])})
            lacks = []
    return tuple(shown)


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _differences(told: Sequence[str], here: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return the places of a run's own lines in what it was told, and of lines of the policy that it lacks.

    A line that both have equally often is told, in whatever order. Of one that comes more often on one side
    (a condition that several rules share) it is those whose neighbours differ.

    >>> _differences(["Return:", "- log in", "Reserve:", "- log in"], ["Return:", "Reserve:", "- log in"])
    ([], [1])
    """
    more, fewer = Counter(here) - Counter(told), Counter(told) - Counter(here)
    if not more and not fewer:
        return [], []
    blocks = SequenceMatcher(None, told, here, autojunk=False).get_matching_blocks()
    alike_told = {place for one in blocks for place in range(one.a, one.a + one.size)}
    alike_here = {place for one in blocks for place in range(one.b, one.b + one.size)}
    return _surplus(here, more, alike_here), _surplus(told, fewer, alike_told)


def _surplus(lines: Sequence[str], surplus: Counter[str], alike: Collection[int]) -> list[int]:
    """Return where lines stand of which there are too many: first those without a like on the other side."""
    left, found = surplus.copy(), []
    for place in sorted(range(len(lines)), key=lambda place: (place in alike, place)):
        if left[lines[place]] > 0:
            left[lines[place]] -= 1
            found.append(place)
    return sorted(found)


def _placed(told: Sequence[str], place: int) -> str:
    """Return a line of the policy, with the one before it where the same words stand elsewhere too."""
    line = told[place]
    return f'{line} (behind "{told[place - 1]}")' if place and told.count(line) > 1 else line


def _own_lines(lines: Sequence[str], own: Collection[int]) -> list[str]:
    """Return a run's own lines, and a mark for each block of others.

    Before a line that stands within what is told the last lines of the block are repeated.
    """
    last = max((place for place in range(len(lines)) if place not in own), default=-1)
    kept: list[str] = []
    block: list[str] = []
    for place, line in enumerate(lines):
        if place not in own:
            block.append(line)
            continue
        if block:
            kept += [ABOVE, *(block[-BEFORE:] if place < last else ())]
            block = []
        kept.append(line)
    return [*kept, ABOVE] if block else kept


def _repeats(messages: Sequence[tuple[int, Message]]) -> dict[int, int]:
    """Return by index of a long tool result the index of an earlier equal one of the same tool."""
    first: dict[tuple[str, str], int] = {}
    found: dict[int, int] = {}
    for index, message in messages:
        if message.role != "tool" or len(message.content or "") < SHORT:
            continue
        key = (message.tool_name or "", message.content or "")
        if key in first:
            found[index] = first[key]
        else:
            first[key] = index
    return found


def _gap(left_out: Sequence[tuple[int, Message]]) -> str:
    calls: dict[str, int] = {}
    for _, message in left_out:
        for call in message.tool_calls:
            calls[call.name] = calls.get(call.name, 0) + 1
    there = ", ".join(
        f"{_label(name)} x{count}" if count > 1 else _label(name) for name, count in calls.items()
    )
    return f"... messages {left_out[0][0]} to {left_out[-1][0]} are left out; calls there: {there or 'none'}"


def _line(index: int, message: Message, step: Step, repeated: int | None) -> tuple[str, bool]:
    """Return a message as it is shown, and whether something was left out of it."""
    limit = step.result if message.role == "tool" else step.text
    said = message.content or ""
    content, cut = _shorten(_compact(said) if message.role == "tool" else said, limit)
    if repeated is not None and step.once:
        content, cut = f"[as in message {repeated}]", True
    head: str = message.role
    if message.role == "tool":
        head += f" {_label(message.tool_name or 'result')}"
        head += " of the user" if message.requestor == "user" else ""
        head += " error" if message.is_error else ""
    lines = [f"{index} {head}:{' ' if content else ''}{_indented(content)}"]
    if not content and message.tool_calls:
        lines = []
    for call in message.tool_calls:
        arguments = _FORGED.sub(r"(\1)", one_line(call.arguments))
        if step.text is not None and len(arguments) > step.text:
            arguments, cut = _shorten(arguments, step.text)[0], True
        lines.append(f"{index} {message.role} calls {_label(call.name)} {arguments}")
    return "\n".join(lines), cut


def _compact(text: str) -> str:
    """Return a tool's JSON without blanks between its parts; any other text as it is."""
    if text[:1] not in ("{", "["):
        return text
    value = strict_json(text)
    return text if value is None else one_line(value)


_BREAKS = re.compile(r"\r\n|[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")


def _indented(text: str) -> str:
    """Return a text whose further lines cannot be taken for messages."""
    return _BREAKS.sub("\n\t", text)


def _label(name: str) -> str:
    """Return a tool's name as one word without a colon, whatever an agent called it."""
    return re.sub(r"[\s:]+", "_", name)[:120] or "_"


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


def one_line(value: Any) -> str:
    """Return JSON on one line without blanks, for readers that break lines at Unicode's own separators."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
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
