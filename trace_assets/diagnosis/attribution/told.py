"""Rules on what the simulated user told the agent beside what it was told to: another value, or not at all.

The ground truth says which values count, the instruction says that the user had them, and the conversation
that the agent never got them. English only where a sentence has to be understood.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from trace_assets.diagnosis.attribution.case import Case, Ruling
from trace_assets.diagnosis.detectors.argument_values import date_words
from trace_assets.diagnosis.detectors.identity import looks_like_id, normal
from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.values import leaves
from trace_assets.diagnosis.detectors.verbs import spoken
from trace_assets.records import ActionDiff

_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n+")
_CONDITIONAL = re.compile(
    r"\b(if|unless|in case|otherwise|only when|when the agent|should the|depending|prefer|rather|"
    r"might|maybe)\b",
    re.IGNORECASE,
)
"""Words of a sentence that need not come true in a conversation."""
_REFUSED = re.compile(
    r"\b(cannot|can't|can not|unable|not able|not (?:be )?(?:possible|allowed|eligible|permitted|available)|"
    r"unfortunately|not authori[sz]ed|don't have (?:access|the ability)|i'?m sorry|i am sorry)\b",
    re.IGNORECASE,
)
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?:[ T]|\Z)")
_DOTTED = re.compile(r"[a-z_]+\.[a-z_]{3,}\Z")
"""Things by kind and name: people say the name alone."""
_GIVEN = 3
"""Characters from which a text value is told from chance words."""


def told_otherwise(case: Case) -> Ruling | None:
    """All that differs from what is expected is what the user said otherwise than it was told to.

    The value that the agent used comes from the user and not from the instruction; the one that is expected
    stands in the instruction, and the user never said it.
    """
    diffs = [row for row in case.diffs or () if not (row.kind == "surplus" and hands_over(row.tool))]
    if not case.simulated or not case.instruction or not diffs:
        return None
    if any(row.kind != "altered" for row in diffs):
        return None
    evidence: set[int] = set()
    words: list[str] = []
    for row in diffs:
        for name, wanted, done in _other_values(row):
            at = _misled(case, row, wanted, done)
            if at is None:
                return None
            evidence.add(at)
            words.append(f"{spoken(name)} {done!r}, its instruction {wanted!r}")
    detail = f"the user said {'; '.join(words)}"[:300]
    return Ruling("user_simulator", "told_otherwise", tuple(sorted(evidence)), detail)


def _other_values(row: ActionDiff) -> Iterator[tuple[str, Any, Any]]:
    """Yield (argument, expected value, given value) of what differs, value by value in objects and lists."""
    for name in row.changed:
        wanted, done = row.expected_arguments.get(name), row.arguments.get(name)
        pairs = list(leaves({name: wanted})), list(leaves({name: done}))
        if [path for path, _ in pairs[0]] == [path for path, _ in pairs[1]]:
            parts = zip(*pairs, strict=True)
            for (path, one), (_, other) in parts:
                yield from ((path, *pair) for pair in _word_by_word(one, other) if one != other)
        else:
            yield name, wanted, done


_WORDS = re.compile(r"[\s=/]+")


def _word_by_word(one: Any, other: Any) -> Iterator[tuple[Any, Any]]:
    """Yield what differs of two values; of command lines and paths, which hold several, word by word.

    >>> list(_word_by_word("ship tax --tag=v1", "ship tax --tag=v2")), list(_word_by_word(3, 4))
    ([('v1', 'v2')], [(3, 4)])
    """
    if isinstance(one, str) and isinstance(other, str):
        words = _WORDS.split(one), _WORDS.split(other)
        if len(words[0]) == len(words[1]) > 2:
            yield from ((a, b) for a, b in zip(*words, strict=True) if a != b)
            return
    yield one, other


def _values_in(value: Any) -> list[Any]:
    """Return the identifiers in a command line or a path beside the value itself."""
    words = _WORDS.split(value) if isinstance(value, str) else []
    return [value, *(word for word in words[1:] if looks_like_id(word))]


def _misled(case: Case, row: ActionDiff, expected: Any, done: Any) -> int | None:
    """Return where the user first said the value that was used in place of the one it was told."""
    if not _is_value(expected) or not _is_value(done) or row.message is None:
        return None
    if not stands_in(expected, case.instruction) or stands_in(done, case.instruction):
        return None
    for index, one in enumerate(case.messages[: row.message]):
        if stands_in(done, _shown(one)):
            # Who brought the value up decides: the user, or somebody whom the user only echoed.
            return index if one.role == "user" and not _ever_said(case, expected) else None
    return None


def untold(case: Case) -> Ruling | None:
    """All that is missing is what the user was told to ask for and never spoke of, though not hindered.

    The user ended the conversation; nothing was refused to it, so that it had no reason to give up; and the
    values of every missing call stand in a sentence of its instruction that sets no condition.
    """
    diffs = [row for row in case.diffs or () if not (row.kind == "surplus" and hands_over(row.tool))]
    if not case.simulated or not case.instruction or not _left_by_itself(case):
        return None
    if not diffs or any(row.kind != "missed" or row.refused for row in diffs):
        return None
    said = "\n".join(_shown(one) for one in case.messages if one.role in ("user", "assistant"))
    words: list[str] = []
    for row in diffs:
        own = [
            (name, value)
            for name, whole in leaves(row.expected_arguments)
            for value in _values_in(whole)
            if _is_value(value) and _asked_for(case.instruction, value)
        ]
        silent = [(name, value) for name, value in own if not stands_in(value, said)]
        if not silent:
            return None
        words.append(f"{spoken(row.tool)} ({', '.join(str(value) for _, value in silent[:2])})")
    detail = f"the user never spoke of what it was told to ask for: {'; '.join(words)}"[:300]
    last = len(case.messages) - 1
    return Ruling("user_simulator", "untold", (last,), detail)


def _asked_for(instruction: str, value: Any) -> bool:
    """Tell whether a value stands in a sentence of an instruction that sets no condition."""
    return any(
        stands_in(value, one) and not _CONDITIONAL.search(one) for one in _SENTENCES.split(instruction)
    )


def _left_by_itself(case: Case) -> bool:
    """Tell whether the user ended a conversation in which nothing was refused and nobody handed it over."""
    if case.trajectory.stop != "completed" or not case.messages:
        return False
    last = case.messages[-1]
    if last.role != "user" or last.tool_calls:
        return False
    if any(hands_over(step.tool) for step in case.transcript.steps):
        return False
    return not any(one.role == "assistant" and _REFUSED.search(one.content or "") for one in case.messages)


def _ever_said(case: Case, value: Any) -> bool:
    return any(one.role == "user" and stands_in(value, one.content or "") for one in case.messages)


def _shown(message: Any) -> str:
    """Return all that a message shows: its text and the arguments of its calls."""
    calls = "".join(f" {value}" for call in message.tool_calls for _, value in leaves(call.arguments))
    return f"{message.content or ''}{calls}"


def _is_value(value: Any) -> bool:
    """Tell whether a value can be looked for in a text: a number, an identifier, or some text."""
    if isinstance(value, bool) or value is None:
        return False
    if isinstance(value, int | float):
        return True
    return isinstance(value, str) and (looks_like_id(value) or len(value.strip()) >= _GIVEN)


def stands_in(value: Any, text: str) -> bool:
    """Tell whether a value stands in a text as a word or number of its own.

    >>> stands_in(14, "for 14 days"), stands_in(14, "in 2014"), stands_in("#W12", "order W12.")
    (True, False, True)
    >>> stands_in("2030-05-26 10:00", "on May 26th, at ten"), stands_in("2030-05-26", "on May 2")
    (True, False)
    """
    if isinstance(value, int | float):
        return any(number == float(value) for number in _numbers(text))
    if date := _DATE.match(str(value)):
        # A moment counts as said with its day: people tell the hour in too many ways.
        day = date_words(*(int(part) for part in date.groups()))
        return day.search(text.lower()) is not None
    words = re.escape(normal(value))
    if _DOTTED.match(str(value)):
        words = rf"(?:{words}|{re.escape(normal(value).rpartition('.')[2])})"
    return re.search(rf"(?<![\w-]){words}(?![\w-])", normal(text)) is not None


def _numbers(text: str) -> Iterator[float]:
    for found in re.findall(r"(?<![\w.])\d[\d,]*(?:\.\d+)?", text):
        yield float(found.replace(",", ""))
