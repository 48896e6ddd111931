"""Rules of a policy with several conditions: each read as a test of a field, joined as they are joined.

`may be moved if it begins in more than 24 hours and was moved fewer than two times, or when it is urgent`
allows what one of its alternatives allows. A condition that cannot be read is neither met nor broken, so that
a rule accuses nobody whom the unread part could allow. English only.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from trace_assets.diagnosis.detectors.policy_lines import Sentence
from trace_assets.diagnosis.detectors.policy_text import FORBIDS, PolicyText
from trace_assets.diagnosis.detectors.values import categorical, time_of
from trace_assets.diagnosis.detectors.verbs import (
    WORD,
    has_stem,
    same_verb,
    speaks_of_change,
    spoken,
    things,
    verb_of,
)
from trace_assets.diagnosis.detectors.wording import last_name

_MAY = re.compile(
    r"\b(?:may|can|could|(?:is|are) (?:allowed|possible|permitted)|allowed)\b[^;]*?"
    r"\b(?:if|when|while|as long as|so long as|provided(?: that)?|on condition that)\b(?P<told>.*)"
)
_MAY_NOT = re.compile(r"\b(?:if|when|while|once|as long as)\b(?P<told>.*)")
_TABLE = re.compile(
    r"^(?P<wish>[^:]+): (?P<column>[^:]*\b(?:not )?(?:allowed|permitted|possible)\b[^:]*): (?P<told>.+)"
)
_UNLESS = re.compile(r"\b(?:unless|except|apart from|other than|even if|regardless)\b")
_OR = re.compile(r",?\s+\bor\b\s+(?:when|if|while|where|as long as)?\s*")
_AND = re.compile(r",?\s+\band\b\s+|,\s+")
_NOT = re.compile(r"\b(?:not|no|never|nobody|without|neither)\b|n't\b|\bun(?=[a-z]{4})")
_NUMBER = r"(?P<number>\d+|one|two|three|four|five|six|seven|eight|nine|ten|twelve)"
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_AHEAD = re.compile(
    rf"\b(?:more than|at least|no later than|over) {_NUMBER} (?P<unit>hour|day|week)s?\b(?! ago)"
)
_NEAR = re.compile(rf"\b(?:less than|fewer than|within|under) {_NUMBER} (?P<unit>hour|day|week)s?\b(?! ago)")
_FEWER = re.compile(rf"\b(?:fewer than|less than|below|under) {_NUMBER}\b")
_MOST = re.compile(rf"\b(?:at most|no more than|not more than|up to) {_NUMBER}\b")
_MORE = re.compile(rf"\b(?:more than|above|over) {_NUMBER}\b")
_LEAST = re.compile(rf"\b(?:at least|no fewer than) {_NUMBER}\b")
_PASSED = re.compile(r"\b(?:passed|over|ended|expired|elapsed|in the past|run out|finished)\b")
_IS = re.compile(r"\b(?:is|are|was|were) (?:not )?['\"]?(?P<value>[a-z-]{3,})['\"]?\s*\Z")
_HOURS = {"hour": 1, "day": 24, "week": 168}
_YES, _NO = frozenset({"yes", "true"}), frozenset({"no", "false"})
_TIMES = frozenset({"at", "by", "date", "end", "ends", "on", "time", "until", "is", "has", "was"})
"""Parts of fields' names that policies leave out."""

Atom = Mapping[str, Any]
"""A test: `field` with `value`, `yes`, `past`, `ahead` (hours), `least`, `most`, and `not`; empty: unread."""


@dataclass(frozen=True)
class Clauses:
    """What a policy makes a tool's use depend on.

    Attributes:
        sentences: What says so.
        allowed: Alternatives of which one must hold, each a list of tests of which all must; empty: always.
        forbidden: Alternatives of which none may hold.
        words: The conditions as they stand there, for a person.
    """

    sentences: tuple[str, ...]
    allowed: tuple[tuple[Atom, ...], ...]
    forbidden: tuple[tuple[Atom, ...], ...]
    words: str

    @property
    def fields(self) -> list[str]:
        """The fields that it reads."""
        every = (*self.allowed, *self.forbidden)
        return sorted({atom["field"] for atoms in every for atom in atoms if atom})

    def broken_by(self, fields: Mapping[str, str], now: str | None) -> bool:
        """Tell whether an object with these fields may not be used so, for certain."""
        return is_broken(self.allowed, self.forbidden, fields, now)


def is_broken(
    allowed: Iterable[Iterable[Atom]],
    forbidden: Iterable[Iterable[Atom]],
    fields: Mapping[str, str],
    now: str | None,
) -> bool:
    """Tell whether no alternative allows, or one forbids, for certain."""
    may = [_all(atoms, fields, now) for atoms in allowed]
    return (bool(may) and all(one is False for one in may)) or any(
        _all(atoms, fields, now) is True for atoms in forbidden
    )


def _all(atoms: Iterable[Atom], fields: Mapping[str, str], now: str | None) -> bool | None:
    met = [holds(atom, fields, now) for atom in atoms]
    return False if False in met else None if None in met else True


def clauses(
    policy: PolicyText, tool: str, values: Mapping[str, Collection[str]], arguments: Iterable[str] = ()
) -> Clauses | None:
    """Return what a policy makes a tool's use depend on, None where it says nothing that can be read.

    Args:
        policy: The policy.
        tool: Its name.
        values: By field, the values that records of its objects have in any run.
        arguments: What the tool is called with.

    >>> said = "A trip may be changed as long as it is open and was changed fewer than two times."
    >>> known = {"state": ["open", "gone"], "timesChanged": ["0", "2"]}
    >>> found = clauses(PolicyText(said), "change_trip", known)
    >>> [found.broken_by({"state": one, "timesChanged": "0"}, None) for one in ("open", "gone")]
    [False, True]
    """
    allowed: list[tuple[Atom, ...]] = []
    forbidden: list[tuple[Atom, ...]] = []
    said: list[str] = []
    words: list[str] = []
    for sentence, told, may in _conditions(policy, tool, tuple(arguments)):
        read = [
            tuple(read_atom(part, values, tool) for part in _AND.split(one) if part.strip())
            for one in _OR.split(told.strip(" .:;"))
        ]
        if not any(atom for atoms in read for atom in atoms):
            # What allows it otherwise is not known: then nothing is forbidden for want of what is known.
            allowed += [()] if may else []
            continue
        (allowed if may else forbidden).extend(read)
        said.append(sentence)
        words.append(told.strip(" .:;") if may else f"not if {told.strip(' .:;')}")
    if not said:
        return None
    return Clauses(tuple(said), tuple(allowed), tuple(forbidden), "; ".join(words))


def _conditions(policy: PolicyText, tool: str, arguments: tuple[str, ...]) -> Iterator[tuple[str, str, bool]]:
    """Yield (sentence, condition, whether it allows) of what a policy says of a tool."""
    for sentence in policy.sentences:
        if _UNLESS.search(sentence.text) or not is_about(sentence, tool, arguments):
            continue
        if (cell := _TABLE.match(sentence.text)) is not None:
            yield sentence.text, cell["told"], not FORBIDS.search(cell["column"])
        elif FORBIDS.search(sentence.text.partition(" if ")[0].partition(" when ")[0]):
            if (found := _MAY_NOT.search(sentence.text)) is not None:
                yield sentence.text, found["told"], False
        elif (found := _MAY.search(sentence.text)) is not None:
            yield sentence.text, found["told"], True


def is_about(sentence: Sentence, tool: str, arguments: Iterable[str] = ()) -> bool:
    """Tell whether a sentence says what a tool does, by its verb and its thing, before any condition."""
    head = re.split(r"\b(?:if|when|while|as long as|so long as|provided|once)\b", sentence.text)[0]
    words, acted = WORD.findall(head), things(tool)
    if any(same_verb(verb_of(tool), word) for word in words):
        return not acted or any(has_stem([*words, *WORD.findall(sentence.heading)], one) for one in acted)
    return speaks_of_change(head, tool, arguments)


def read_atom(text: str, values: Mapping[str, Collection[str]], tool: str = "") -> dict[str, Any]:
    """Return a condition as a test of a field; empty where it cannot be read.

    >>> known = {"state": ["detached"], "shared": ["true"], "keptUntil": ["2036-01-01"], "moved": ["1"]}
    >>> read_atom("it is detached", known), read_atom("it is not shared", known)
    ({'field': 'state', 'value': 'detached', 'not': False}, {'field': 'shared', 'yes': True, 'not': True})
    >>> read_atom("it need not be kept any longer: that date has passed", known)
    {'field': 'keptUntil', 'past': True, 'not': True}
    >>> read_atom("it was moved fewer than two times", known)
    {'field': 'moved', 'least': None, 'most': 1}
    >>> read_atom("its state is lost", known)
    {'field': 'state', 'value': 'lost', 'not': False}
    """
    words = WORD.findall(text)
    negated = bool(_NOT.search(text))
    for pattern, ahead in ((_AHEAD, True), (_NEAR, False)):
        if (found := pattern.search(text)) is not None:
            field = _named(words, _dated(values))
            hours = _number(found["number"]) * _HOURS[found["unit"]]
            return {"field": field, "ahead": hours, "not": negated == ahead} if field else {}
    for pattern, least, most in ((_FEWER, None, -1), (_MOST, None, 0), (_MORE, 1, None), (_LEAST, 0, None)):
        if (found := pattern.search(text)) is not None:
            field = _named(words, {name for name, own in values.items() if own and all(map(_is_number, own))})
            number = _number(found["number"])
            if not field or negated:
                return {}
            return {
                "field": field,
                "least": None if least is None else number + least,
                "most": None if most is None else number + most,
            }
    if _PASSED.search(text):
        field = _named(words, _dated(values))
        if field:
            return {"field": field, "past": True, "not": negated}
    said = [
        (field, value)
        for field, own in values.items()
        for value in own
        if categorical(value)
        and value.lower() not in _YES | _NO
        and len(value) > 2
        and spoken(value) in text  # saves a regular expression for most
        and re.search(rf"(?<![\w-]){re.escape(spoken(value))}(?:s|es)?(?![\w-])", text)
        and not _is_deed(value, tool)
    ]
    if said:
        longest = max(len(value) for _, value in said)
        said = [pair for pair in said if len(pair[1]) == longest]
        field = _named(words, {field for field, _ in said}) or (said[0][0] if len(said) == 1 else "")
        return {"field": field, "value": dict(said)[field], "not": negated} if field else {}
    stated = _IS.search(text)
    states = {
        field
        for field, own in values.items()
        if own and all(categorical(one) and one.lower() not in _YES | _NO for one in own)
    }
    if stated and (field := _named(WORD.findall(text[: stated.start()]), states)):
        # A value that no run has seen.
        return {"field": field, "value": stated["value"], "not": negated}
    flags = {field for field, own in values.items() if own and {one.lower() for one in own} <= _YES | _NO}
    field = _named(words, flags)
    return {"field": field, "yes": True, "not": negated} if field else {}


def holds(atom: Atom, fields: Mapping[str, str], now: str | None) -> bool | None:
    """Tell whether a test holds for a record; None where that is not known."""
    value = fields.get(atom["field"]) if atom else None
    if value is None:
        return None
    found: bool | None
    if "value" in atom:
        found = spoken(value) == spoken(atom["value"])
    elif "yes" in atom:
        found = value.lower() in _YES
    elif "least" in atom:
        if not _is_number(value):
            return None
        least, most = atom["least"], atom["most"]
        return (least is None or float(value) >= least) and (most is None or float(value) <= most)
    else:
        moment, today = time_of(value), time_of(now)
        if moment is None or today is None:
            return None
        if "past" in atom:
            found = moment.date() < today.date()
        else:
            if len(value) <= len("2030-01-31"):
                today = today.replace(hour=0, minute=0, second=0, microsecond=0)
            found = moment - today >= timedelta(hours=atom["ahead"])
    return found != bool(atom.get("not"))


def _dated(values: Mapping[str, Collection[str]]) -> set[str]:
    return {field for field, own in values.items() if own and all(time_of(one) is not None for one in own)}


def _named(words: Sequence[str], fields: Iterable[str]) -> str:
    """Return the one field all of whose telling parts are among some words, that with the most parts."""
    found: list[tuple[int, str]] = []
    for field in fields:
        parts = [part for part in spoken(last_name(field)).split() if part not in _TIMES]
        if parts and all(_has_part(part, words) for part in parts):
            found.append((-len(parts), field))
    found.sort()
    return found[0][1] if found and (len(found) == 1 or found[0][0] < found[1][0]) else ""


def _has_part(part: str, words: Iterable[str]) -> bool:
    stem = part[: max(3, len(part) - 2)]
    return any(word.startswith(stem) and abs(len(word) - len(part)) <= 4 for word in words)


def _is_deed(value: str, tool: str) -> bool:
    """Tell whether a value is only a word of what the tool does or acts on."""
    return bool(tool) and all(
        has_stem(things(tool), word) or same_verb(verb_of(tool), word) for word in spoken(value).split()
    )


def _number(text: str) -> int:
    return _NUMBERS.index(text) + 1 if text in _NUMBERS else int(text)


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
