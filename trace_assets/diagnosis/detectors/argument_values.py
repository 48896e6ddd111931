"""Values of arguments that nobody gave, and values that are no longer so."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.identity import normal
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.values import leaves, numbers_in, readings
from trace_assets.diagnosis.detectors.verbs import spoken
from trace_assets.diagnosis.detectors.wording import gerund, plain_name

MIN_USES = 4
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})\Z")
# English only: other languages write dates as numbers or are not understood.
MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_RELATIVE = re.compile(
    r"\b(?:today|tomorrow|yesterday|tonight|(?:next|following|previous|same|another) (?:day|week|month)|"
    r"(?:day|days|week|weeks|month|months) (?:after|before|later|earlier|from)|"
    r"(?:by|in) (?:a|an|one|two|three|\d+) (?:day|week|month)s?|"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b"
)
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_CENT = 0.005
MIN_VALUES = 3
"""Distinct values below which an argument is an enumeration, whose values come from the tool's schema."""


class UnsupportedArgument:
    """A value of an argument occurs in no earlier message of user, system or tool: it was made up.

    Dates and numbers are found as people write them. The sum of what one result shows is neither said nor
    made up, and shows nothing either way. What the agent said first and the user repeated was made up too.

    Relevant when the argument was given. Arguments: `argument` (dotted path), `tool` (empty for any tool).
    """

    name = "unsupported_argument"
    norm = 0.8
    mistake: Mistake = "wrong_value"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose each argument over all tools, and alone for each writing tool."""
        values: dict[tuple[str, str], set[str]] = {}
        uses: dict[tuple[str, str], int] = {}
        for one in corpus.transcripts:
            for step in one.steps:
                for path, value in leaves(step.values):
                    text = _checkable(value)
                    if text is None or step.by_user or (_bounds(path, text) and step.tool in corpus.reading):
                        continue
                    for tool in ("", step.tool) if step.tool in corpus.mutating else ("",):
                        values.setdefault((path, tool), set()).add(text)
                        uses[path, tool] = uses.get((path, tool), 0) + 1
        proposals = []
        for (path, tool), seen in sorted(values.items()):
            if len(seen) < MIN_VALUES or uses[path, tool] < MIN_USES or path in _OWN_WORDS:
                continue
            what = spoken(path.rpartition(".")[2])
            where = f" when {gerund(tool)}" if tool else ""
            proposals.append(
                Proposal(
                    args={"argument": path, "tool": tool},
                    name=f"Take the {what} from what was said or seen{where}",
                    description=(
                        f"Every '{what}' given to {'the tool ' + spoken(tool) if tool else 'a tool'} must "
                        "come from the user or from an earlier result; ask or look it up rather than guess."
                    ),
                    subject=(path, tool or "any"),
                )
            )
        return proposals

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        steps = transcript.calls(args["tool"]) if args["tool"] else transcript.steps
        given: list[int] = []
        for step in steps:
            if step.by_user:
                continue
            for path, value in leaves(step.values):
                text = _checkable(value) if path == args["argument"] else None
                if text is None:
                    continue
                if not _supported(transcript, text, step.index) and not _borne_out(transcript, text, step):
                    # What stands in a list may be a part of a sum, split as nobody can follow.
                    if path.rpartition(".")[2] in step.given and _adds_up(transcript, text, step.index):
                        continue
                    return lacking(f"{step.tool} was given {path}={text}, which nobody had said", step.index)
                given.append(step.index)
        return present(f"every {args['argument']} had been said or seen", *given[:4]) if given else NOT_NEEDED


_BOUND = re.compile(
    r"(?:\A|_)(?:from|to|since|until|after|before|start|end|begin|min|max|earliest|latest)(?:_|\Z)"
)


def _bounds(path: str, text: str) -> bool:
    """Tell whether a value says from when until when is searched: who looks may look as far as he likes.

    >>> _bounds("date_from", "2031-05-02"), _bounds("date", "2031-05-02"), _bounds("sent_to", "ann")
    (True, False, False)
    """
    return _DATE.match(text) is not None and _BOUND.search(plain_name(path).replace(".", "_")) is not None


_OWN_WORDS = frozenset({"query", "queries", "q", "search_query", "keyword", "keywords"})
"""Arguments with what the agent looks for, in words that nobody has to have said."""


def _checkable(value: object) -> str | None:
    """Return the text to look for; None for flags, long phrases and small numbers."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        text = f"{value:g}" if isinstance(value, float) else str(value)
        return text if len(text) >= 2 else None
    text = str(value).lower().lstrip("#").strip()
    return text if 2 <= len(text) <= 40 and text.count(" ") <= 2 else None


def _supported(transcript: Transcript, text: str, before: int) -> bool:
    """Tell whether a value was said or shown before; the user's echo of an invention is no source."""
    if text not in transcript.sources:
        transcript.sources[text] = _source(transcript, text)
    return transcript.sources[text] < before


def _borne_out(transcript: Transcript, text: str, step: Step) -> bool:
    """Tell whether another call that was made together with one showed its value: a guess that was right."""
    return any(
        text in other.result.lower() and not other.is_about(text)
        for other in transcript.steps
        if other.index == step.index and other is not step and not other.failed
    )


def _source(transcript: Transcript, text: str) -> int:
    """Return the first message that is a source of a value; behind the last one when none is."""
    date = _DATE.match(text)
    ways = date_words(*(int(part) for part in date.groups())) if date else None
    number = readings(text) if _NUMBER.fullmatch(text) else frozenset()
    invented = False
    for index, (message, said) in enumerate(zip(transcript.messages, transcript.lowered, strict=True)):
        role = message.role
        if not _occurs(text, said, ways, number):
            if date and role == "user" and _RELATIVE.search(said):
                return index  # a day that was told by its distance cannot be held against a calendar
            continue
        if role in ("tool", "system") or (role == "user" and not invented):
            return index
        invented = invented or role == "assistant"
    return len(transcript.messages)


def _adds_up(transcript: Transcript, text: str, before: int) -> bool:
    """Tell whether a number is the sum of what a result had shown before."""
    number = readings(text) if _NUMBER.fullmatch(text) else ()
    return any(
        abs(total - own) < _CENT for at, total in transcript.sums if number and at < before for own in number
    )


def _occurs(text: str, said: str, ways: re.Pattern[str] | None, number: frozenset[float]) -> bool:
    if ways is not None:
        return ways.search(said) is not None
    return text in said or (bool(number) and not number.isdisjoint(numbers_in(said)))


def date_words(year: int, month: int, day: int) -> re.Pattern[str]:
    """Return what finds a date as people write it.

    >>> bool(date_words(2024, 5, 26).search("on may 26th")), bool(date_words(2024, 5, 26).search("5/26"))
    (True, True)
    >>> bool(date_words(2024, 5, 2).search("on may 26"))
    False
    """
    name = MONTHS[month - 1] if 1 <= month <= 12 else str(month)
    spoken_month = rf"(?:{name}|{name[:3]}\.?)"
    suffix = r"(?:st|nd|rd|th)?"
    return re.compile(
        rf"{year}-{month:02}-{day:02}|\b{spoken_month}\s+0?{day}{suffix}\b"
        rf"|\b0?{day}{suffix}\s+(?:of\s+)?{spoken_month}\b|\b0?{month}/0?{day}\b|\b0?{day}\.0?{month}\.|"
        rf"\bthe\s+{day}(?:st|nd|rd|th)\b"
    )


MIN_WRITES = 3


class StaleValue:
    """A value that a result showed is given to a tool after a later result showed another one in its place.

    The argument has the field's name: a revision, a balance, a date that was moved. The user's own words
    since the change are no stale source. Relevant when a field of an object was seen to change before a call
    that takes an argument of this name, as its first or its last value. Arguments: `argument`.
    """

    name = "stale_value"
    norm = 0.8
    mistake: Mistake = "wrong_value"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every argument whose field was seen to change before a call."""
        uses: dict[str, int] = {}
        for one in corpus.transcripts:
            for argument in {argument for argument, *_ in _changed(one)}:
                uses[argument] = uses.get(argument, 0) + 1
        return [
            Proposal(
                args={"argument": argument},
                name=f"Take the {spoken(argument)} as it stands after the last change",
                description=(
                    f"When something has changed since '{spoken(argument)}' was read, use the value that the "
                    "latest result shows, or look again, and not the earlier one."
                ),
                subject=(argument,),
            )
            for argument, n in sorted(uses.items())
            if n >= MIN_WRITES
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        shown: list[int] = []
        for argument, step, old, new, at in _changed(transcript):
            if argument != args["argument"]:
                continue
            given = normal(step.given[argument])
            if given == old and not _said_since(transcript, old, at, step.index):
                why = f"{step.tool} was given {argument} {old}, which had since become {new}"
                return lacking(why, at, step.index)
            shown += [at, step.index]
        return present(f"the latest {args['argument']} was used", *shown) if shown else NOT_NEEDED


def _changed(transcript: Transcript) -> Iterator[tuple[str, Step, str, str, int]]:
    """Yield (argument, call, old value, new value, where it was shown) of calls that take either value."""
    if not transcript.histories:
        return
    for step in transcript.steps:
        for argument, value in step.given.items() if not step.by_user else ():
            if value is None or isinstance(value, bool | Mapping | list):
                continue
            for history in transcript.histories.get(plain_name(argument), ()):
                shown = [one for one in history if one[0] < step.index]
                old, new = (shown[0][1], shown[-1][1]) if shown else ("", "")
                if old != new and normal(value) in (old, new):
                    yield argument, step, old, new, shown[-1][0]
                    break


def _said_since(transcript: Transcript, value: str, after: int, before: int) -> bool:
    return any(
        value in transcript.lowered[index]
        for index in range(after + 1, before)
        if transcript.messages[index].role == "user"
    )
