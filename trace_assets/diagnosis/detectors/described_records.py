"""Of several records that a look shows: those that the user describes, that are acted on, or never opened."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic_core import from_json

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.identity import looks_like_id, names_a_thing, normal
from trace_assets.diagnosis.detectors.missing_looks import MIN_USES as MIN_ASKED
from trace_assets.diagnosis.detectors.notation import WEEKDAYS
from trace_assets.diagnosis.detectors.protocol import (
    NOT_NEEDED,
    Detector,
    Finding,
    Mistake,
    Proposal,
    lacking,
    present,
)
from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.values import leaves, records_in, scalars_of, strings, time_of
from trace_assets.diagnosis.detectors.verbs import spoken
from trace_assets.diagnosis.detectors.wording import STOP_WORDS, gerund, noun

MIN_USES = 4
"""Runs in which the user must have told such records apart."""
MOSTLY = 0.5
"""Share of these in which what is acted on must be what was described: else the field describes nothing."""
_WORD = re.compile(r"[^\W\d_][^\W\d_'-]{2,}")
_NO_NAMES = frozenset({"false", "none", "null", "true"})

Record = Mapping[str, str]
# English only: a policy in another language gives no proposals.
_HELPS = re.compile(
    r"\b(?:locate|look up|find|identify|search for)\b.*\b(?:id|number|it)\b"
    r"|\bknow\b.*\b(?:locate|look up|find)\b"
)


@dataclass(frozen=True)
class Choice:
    """What a run did where a look showed several records.

    Attributes:
        described: Names of the records that the user's words describe.
        acted: Names of those that the tool was called on.
        several: Whether a record was shown that nobody described.
        shown: The message that shows them.
        calls: The messages that act on them.
    """

    described: frozenset[str]
    acted: frozenset[str]
    several: bool
    shown: int
    calls: tuple[int, ...]


class OtherRecordTaken:
    """A look shows several records, the user's words describe some, and the tool is called on another one.

    The user says a word of a field that tells them apart: the kind of the device that was lost, with whom the
    meeting is. Relevant when the tool was called on one of them, and not all of them were described.
    Arguments: `tool`, `argument` that names the record, `field` by which users describe it.
    """

    name = "other_record_taken"
    norm = 0.8
    mistake: Mistake = "wrong_value"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose the field that tells most for each writing tool."""
        return [
            Proposal(
                args={"tool": tool, "argument": argument, "field": field},
                name=f"Take the {noun(argument)} that the user describes when {gerund(tool)}",
                description=(
                    f"When a look shows several, call '{spoken(tool)}' on the one whose "
                    f"'{spoken(field.rpartition('.')[2])}' is what the user said, not on the first."
                ),
                subject=(tool, argument),
            )
            for tool, argument, field in _fields(self, corpus)
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        one = _choice(transcript, args)
        if one is None or not one.several or not one.acted:
            return NOT_NEEDED
        if wrong := one.acted - one.described:
            return lacking(
                f"{', '.join(sorted(wrong))} is not what the user described", one.shown, *one.calls
            )
        return present("what was described was taken", one.shown, *one.calls)


class DescribedRecordLeft:
    """The user's words describe several records of those shown, and the tool is called on some of them only.

    Relevant when at least two were described and the tool was called on one of these. Arguments: `tool`,
    `argument` that names the record, `field` by which users describe it.
    """

    name = "described_record_left"
    norm = 0.7
    mistake: Mistake = "early_end"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose the field that tells most for each writing tool."""
        return [
            Proposal(
                args={"tool": tool, "argument": argument, "field": field},
                name=f"Deal with every {noun(argument)} the user describes when {gerund(tool)}",
                description=(
                    f"When the user's request is about several of what a look shows, go on with "
                    f"'{spoken(tool)}' after the first one until each has been dealt with."
                ),
                subject=(tool, argument),
            )
            for tool, argument, field in _fields(self, corpus)
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        one = _choice(transcript, args)
        if one is None or len(one.described) < 2 or not one.acted & one.described:
            return NOT_NEEDED
        if left := one.described - one.acted:
            end = transcript.last_of_agent()
            return lacking(f"{', '.join(sorted(left))} was described too, and in no call", one.shown, end)
        return present("all that was described was dealt with", one.shown, *one.calls)


def _fields(family: Detector, corpus: Corpus) -> Iterator[tuple[str, str, str]]:
    """Yield writing tools with the argument that names a record, and the field by which users describe it."""
    for tool in sorted(corpus.mutating & corpus.agent_tools.keys()):
        chosen: dict[str, list[Transcript]] = {}
        fields: dict[str, dict[str, None]] = {}
        for one in corpus.transcripts:
            for argument, (records, key, _) in shown_among(one, tool).items():
                chosen.setdefault(argument, []).append(one)
                known = fields.setdefault(argument, {})
                known.update((field, None) for row in records for field in row if field != key)
        for argument, runs in sorted(chosen.items()):
            best = (0, "")
            for field in fields[argument] if len(runs) >= MIN_USES else ():
                args = {"tool": tool, "argument": argument, "field": field}
                labels = [family.label(one, args).label for one in runs]
                right, wrong = labels.count("PRESENT"), labels.count("LACKING")
                if right + wrong >= MIN_USES and right >= MOSTLY * (right + wrong):
                    best = max(best, (right, field))
            if best[0]:
                yield tool, argument, best[1]


def _choice(transcript: Transcript, args: Mapping[str, Any]) -> Choice | None:
    """Return what was described and what was acted on, of the records among which the tool chose first."""
    records, key, at = shown_among(transcript, args["tool"]).get(args["argument"], ((), "", 0))
    rows = [(normal(row[key]), words_for(row.get(args["field"], ""))) for row in records if key in row]
    if not rows:
        return None
    said = {word for word in transcript.words if transcript.words[word] < at}
    # What all of them are called by tells none apart.
    alike = frozenset.intersection(*(words for _, words in rows))
    described = frozenset(name for name, words in rows if (words - alike) & said)
    if not described:
        return None
    acted, calls, names = set[str](), list[int](), {name for name, _ in rows}
    for step in transcript.own_calls(args["tool"], ok=True):
        if taken := _values(step, args["argument"]) & names:
            acted |= taken
            calls.append(step.index)
    return Choice(described, frozenset(acted), len(described) < len(rows), at, tuple(calls))


@lru_cache(maxsize=1 << 12)
def words_for(value: str) -> frozenset[str]:
    """Return the words by which people describe a value; a time has those of its weekday and part of the day.

    >>> sorted(words_for("Blue mug")), {"afternoon", "jueves"} <= words_for("2030-01-31 14:15")
    (['blue', 'mug'], True)
    """
    named = set(_WORD.findall(value.lower()))
    if (moment := time_of(value)) is not None:
        named = set(WEEKDAYS[moment.weekday()].split())
    if (hour := _HOUR.search(value.lower())) is not None:
        at = int(hour[1]) % 12 + 12 if hour[2] == "pm" else int(hour[1])
        named |= set(next((words.split() for until, words in _PARTS if at < until), ()))
    return frozenset(named) - STOP_WORDS - _NO_NAMES


_HOUR = re.compile(r"(?<![\d:])([01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?\s?([ap]m)?")
_PARTS = (
    (4, "night nachts noche notte"),
    (12, "morning vormittag vormittags morgens mañana matin mattina manhã"),
    (18, "afternoon nachmittag nachmittags tarde pomeriggio"),
    (24, "evening tonight abend abends noche soir sera noite"),
)
"""Hour until which a part of the day lasts, and what it is called."""


def _values(step: Step, argument: str, *, words: bool = False) -> set[str]:
    own = [value for _, value in leaves(step.given.get(argument))]
    return {normal(one) for one in own if names_a_thing(one) or (words and isinstance(one, str) and one)}


def shown_among(
    transcript: Transcript, tool: str, *, words: bool = False
) -> Mapping[str, tuple[Sequence[Record], str, int]]:
    """Return by argument of a tool among which records its first call chose, their name, and where.

    Args:
        transcript: The run.
        tool: Its name.
        words: Whether records may go by words (`VAN-S`, `yoga`), and not by identifiers alone.
    """
    found: dict[str, tuple[Sequence[Record], str, int]] = {}
    for step in transcript.own_calls(tool, ok=True):
        left = step.given.keys() - found.keys()
        given = {argument: _values(step, argument, words=words) for argument in left}
        wanted = {argument: values for argument, values in given.items() if values}
        for earlier in reversed(transcript.steps) if wanted else ():
            if earlier.failed or earlier.answer is None or earlier.answer >= step.index:
                continue
            for records, names in _named_in(earlier.result):
                for argument in sorted(wanted.keys() - found.keys()):
                    first = min((names[one] for one in wanted[argument] if one in names), default=None)
                    if first is not None:
                        found[argument] = (records, first[1], step.index)
    return found


@lru_cache(maxsize=1 << 12)  # as `lists_in`
def _named_in(text: str) -> tuple[tuple[Sequence[Record], Mapping[str, tuple[int, str]]], ...]:
    """Return every list of a result with the names in it: where each first stands, and in which field.

    A field names records when it holds something else of each.
    """
    found = []
    for records in lists_in(text):
        telling = {
            field
            for row in records
            for field in row
            if len({one.get(field) for one in records}) == len(records)
        }
        names: dict[str, tuple[int, str]] = {}
        cells = (cell for row in records for cell in row.items())
        for place, (field, value) in enumerate(cells):
            if field in telling:
                names.setdefault(normal(value), (place, field))
        found.append((records, names))
    return tuple(found)


@lru_cache(maxsize=1 << 12)  # each field of each tool is held against the same results
def lists_in(text: str) -> tuple[Sequence[Record], ...]:
    """Return every list of two or more records in a result.

    >>> [len(one) for one in lists_in('{"order": "K1", "items": [{"sku": "S1"}, {"sku": "S2"}]}')]
    [2]
    """
    if not text.lstrip().startswith(("{", "[")):
        rows = records_in(text)
        return (rows,) if len(rows) > 1 else ()
    try:
        return tuple(_nested(from_json(text)))
    except ValueError:
        return ()


def _nested(value: Any) -> Iterator[Sequence[Record]]:
    if isinstance(value, list):
        rows = [scalars_of(row) for row in value if isinstance(row, Mapping)]
        if len(rows) > 1:
            yield rows
    for item in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from _nested(item)


class ListedUnopened:
    """A result lists objects, the user names none of them, and the agent gives up before opening all.

    Only where the policy tells the agent to find which one is meant: many a list need not be gone through.

    Opening is the reading tool that is called with their identifiers. Relevant when at least two were listed
    and the user named none. PRESENT when all were opened, or when one that was opened was changed: the one
    meant was found. Arguments: `list` (field that lists them), `read`, `argument` of it, `writes`.
    """

    name = "listed_unopened"
    norm = 0.0
    mistake: Mistake = "missing_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every pair of a list in results and a reading tool that is called with what it lists."""
        told = [one.text for one in corpus.policy.sentences if _HELPS.search(one.text)]
        found = Counter[tuple[str, str, str]]()
        for one in corpus.transcripts:
            pairs = set[tuple[str, str, str]]()
            for field, names, at in _lists(one):
                for step in one.steps:
                    for argument, value in step.given.items():
                        if step.tool in corpus.reading and step.index > at and normal(value) in names:
                            pairs.add((field, step.tool, argument))
            found.update(pairs)
        best: dict[str, tuple[int, str, str]] = {}
        for (field, read, argument), count in sorted(found.items()):
            if count >= MIN_ASKED and any(noun(argument) in text for text in told):
                best[field] = max(best.get(field, (0, "", "")), (count, read, argument))
        return [
            Proposal(
                args={
                    "list": field,
                    "read": read,
                    "argument": argument,
                    "writes": sorted(corpus.mutating),
                },
                name=f"Open each of the listed {spoken(field)} until the one meant is found",
                description=(
                    f"When the user does not name the {noun(argument)}, open all of '{spoken(field)}' with "
                    f"'{spoken(read)}' until the one that is meant is found, before asking the user for it, "
                    "giving up or doing something else."
                ),
                subject=(field, read),
            )
            for field, (_, read, argument) in sorted(best.items())
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        listed: dict[str, int] = {}
        for field, names, at in _lists(transcript):
            if field == args["list"]:
                for name in names:
                    listed.setdefault(name, at)
        if len(listed) < 2 or any(name in transcript.asked_text for name in listed):
            return NOT_NEEDED
        opened = {
            name: step.index
            for step in transcript.calls(args["read"], ok=True)
            if not step.by_user and (name := normal(step.given.get(args["argument"]))) in listed
        }
        first = min(listed.values())
        if len(opened) == len(listed):
            return present("all that is listed was opened", first, max(opened.values()))
        writes = set(strings(args["writes"]))
        changed = [step for step in transcript.steps if step.tool in writes and self._of(step, opened)]
        if changed:
            return present("one that was opened was changed", first, changed[0].index)
        left = len(listed) - len(opened)
        return lacking(f"{left} of {len(listed)} listed were never opened", first, transcript.last_of_agent())

    def _of(self, step: Step, opened: Mapping[str, int]) -> bool:
        return any(name in opened and opened[name] < step.index for name in step.objects)


def _lists(transcript: Transcript) -> Iterator[tuple[str, frozenset[str], int]]:
    """Yield the lists of two or more identifiers in results: field, what it lists, where."""
    for step in transcript.steps:
        if step.failed or step.answer is None or not step.result.lstrip().startswith("{"):
            continue
        try:
            value = from_json(step.result)
        except ValueError:
            continue
        for field, items in _named_lists(value):
            if len(items) >= 2 and all(looks_like_id(item) for item in items):
                yield field, frozenset(normal(item) for item in items), step.answer


def _named_lists(value: Any) -> Iterator[tuple[str, list[Any]]]:
    """Yield the lists of a record, those of records in it too, by their own names."""
    for field, item in value.items() if isinstance(value, dict) else ():
        if isinstance(item, list):
            yield str(field), item
        else:
            yield from _named_lists(item)
