"""What a domain's policy says in forms that can be read without understanding it: its clock, and three rules.

Each reader gives up on what it cannot read, so that nothing is made of a sentence it has not understood.
English only; a policy in another language gives no rules.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from itertools import dropwhile, takewhile

from trace_assets.diagnosis.detectors.asked_once import AskedOnce
from trace_assets.diagnosis.detectors.policy_lines import (
    ANY_OF,
    HEADING,
    ITEM,
    Sentence,
    listed_apart,
    sentences_of,
)
from trace_assets.diagnosis.detectors.values import time_of
from trace_assets.diagnosis.detectors.verbs import (
    GIVING,
    WORD,
    has_stem,
    is_deed,
    same_verb,
    speaks_of,
    things,
    verb_of,
)
from trace_assets.records import Trajectory

_WEEKDAY = r"(?:(?:[^\W\d_]+(?:tag|day)|mon|tues?|wed|thur?s?|fri|sat|sun)\.?,?\s+)?"
_SAYS_NOW = (
    r"(?:current\s+(?:date(?: and time)?|time|day)|today(?:'s date)?|(?:date|time) (?:today|now)|now|"
    r"(?:^|(?<=\. ))date(?=\s*:)|(?:reference|simulated|present|system) (?:date|time)|as of|date and time|"
    r"heute|(?:aktuelles )?datum|hoy|fecha(?: actual)?|aujourd'hui|nous sommes|oggi|hoje|vandaag)"
    r"(?:\s+(?:is|ist|es|le)(?: der| el)?\b|\s*:)?[\s*:]*" + _WEEKDAY + r"\**"
)
"""What stands before the date of today, also in other languages."""
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_DATE = (
    r"\d{4}-\d{2}-\d{2}|\d{1,2}\.\d{1,2}\.\d{4}|"
    rf"\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{_MONTH},? \d{{4}}|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}"
)
_CLOCK = re.compile(
    rf"\b{_SAYS_NOW}({_DATE})|\bit is {_WEEKDAY}({_DATE})",
    re.IGNORECASE | re.MULTILINE,
)
_MOMENT = re.compile(
    rf"\b(?:{_SAYS_NOW}|it is {_WEEKDAY})({_DATE})(?:,? |T)(\d{{1,2}}:\d{{2}}(?::\d{{2}})?)",
    re.IGNORECASE | re.MULTILINE,
)
FORBIDS = re.compile(
    r"\b(cannot|can't|can not|not (?:be )?(?:allowed|permitted|possible|eligible)|unable|"
    r"(?:must|may|should|shall|do|does|will) not|mustn't|shouldn't|don't|never|no longer|"
    r"prohibited|forbidden|refuse to|get no|non-?[a-z]+able|nothing|nobody|no one|"
    r"no [a-z]+(?: [a-z]+)? (?:is|are|may|can|shall|must))\b"
)
"""Words of a sentence that forbids something."""
_PAST = re.compile(
    r"\b(already|past|expired|elapsed|over|ended|finished|begun|started|closed|took place|gone)\b"
)
ALLOWS = re.compile(r"\b(can|may|only|must|should|allowed)\b")
_AFTER = re.compile(r"\b(?:after|once)\b([^.;]*)")
_WITHOUT = re.compile(r"\bwithout changing (?:the |its |their )?([^.;:]*)")
_TALKS = re.compile(r"\b(?:ask|tell|inform|remind|respond to) (?:the |a )?(?:user|customer)s?\b")
OTHERWISE = re.compile(
    r"^(?:otherwise|else|in (?:all|any) other cases?|in every other case|if not)\b[,:]?\s*"
)
"""How a sentence begins that holds only where the one before it does not."""
_NEXT_CLAUSE = re.compile(
    r"(?:,\s*(?:and|but|while|whereas)|;|\s(?:and|but|while|whereas))\s+"
    r"(?=[^,;.]{3,60}?\b(?:can|may|must|should|cannot)\b)"
)
_MAY_BE = re.compile(
    r"(?P<subject>[^,;:]+?) (?:can|may) (?P<how>always|only)? ?(?:also )?"
    r"be (?P<done>[a-z]+(?:ed|en|t))\b(?P<told>.*)"
)
_SHOWN = 0.9
"""Share of the runs with a system message that a line must have been shown in to be of the policy."""
_IS_JSON = re.compile(r"\s*[\[{]\s*[\[{\"]")
_LIKE = 0.5
"""How alike two sentences must be to be two cases of one rule."""


@dataclass(frozen=True)
class After:
    """A tool may be used only after one of others.

    Attributes:
        sentence: What says so.
        before: Tools of which one must come first.
        only_if: Words of which one must stand in the task for the sentence to apply, each with the noun that
            follows it; empty: it always does.
    """

    sentence: str
    before: frozenset[str]
    only_if: frozenset[tuple[str, str]]


def _iso(date: str) -> str:
    """Return a date with its year first.

    >>> _iso("2030-01-31"), _iso("3.1.2030"), _iso("5th March 2046"), _iso("March 5, 2046")
    ('2030-01-31', '2030-01-03', '2046-03-05', '2046-03-05')
    """
    moment = time_of(date)
    if moment is not None:
        return moment.date().isoformat()
    months = "jan feb mar apr may jun jul aug sep oct nov dec".split()  # noqa: SIM905 - as in `verbs`
    month = next(n for n, name in enumerate(months, 1) if name in date.lower())
    day, year = re.findall(r"\d+", date)
    return f"{year}-{month:02}-{int(day):02}"


@lru_cache(maxsize=16)
def read_policy(text: str) -> PolicyText:
    """Return a policy, for a text the same one each time: batch after batch has it."""
    return PolicyText(text)


class PolicyText(AskedOnce):
    """A policy and what can be read from it; what was read for a tool is kept, as many tasks ask for it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self._protected: dict[str, tuple[frozenset[str], str]] = {}
        self._past: dict[str, list[Sentence]] = {}
        self._after: dict[tuple[str, frozenset[str]], list[After]] = {}

    @cached_property
    def clock(self) -> str | None:
        """Today as the policy says it (ISO date)."""
        found = _CLOCK.search(self.text)
        return _iso(found.group(1) or found.group(2)) if found else None

    @cached_property
    def now(self) -> str | None:
        """The moment as the policy says it (ISO date, and time where it is told).

        >>> PolicyText("It is Thursday 6 March 2025, 08:50.").now, PolicyText("Now: Wed 2025-03-12").now
        ('2025-03-06 08:50', '2025-03-12')
        """
        found = _MOMENT.search(self.text)
        return f"{_iso(found.group(1))} {found.group(2).zfill(5)}" if found else self.clock

    def any_of(self, tool: str, tools: Iterable[str] = ()) -> list[str]:
        r"""Return the conditions of which one has to hold for a tool to be used, as the policy lists them.

        Args:
            tool: The tool.
            tools: All tools, where they are known: what no other tool does may be said of a thing that is
                called otherwise than in the tool's name.

        A line that allows what the tool does `if any of the following is true`, and the list under it, or,
        with semicolons, behind its colon.

        >>> text = "A booking can be cancelled if any of the following is true:\n- It is new\n- Late"
        >>> PolicyText(text).any_of("cancel_booking"), PolicyText(text).any_of("book_flight")
        (['it is new', 'late'], [])
        >>> text = "Trips can be cancelled if any of these is true: they are new; they\n are late. Else deny."
        >>> PolicyText(text).any_of("cancel_booking", ["cancel_booking", "get_booking"])
        ['they are new', 'they are late']
        """
        known = tuple(tools)
        return self.once(("any of", tool, known), lambda: self._find_any_of(tool, known))

    def _find_any_of(self, tool: str, tools: tuple[str, ...]) -> list[str]:
        lines = listed_apart(line.strip().lower() for line in self.text.splitlines())
        heading, verb = "", verb_of(tool)
        for place, line in enumerate(lines):
            if title := HEADING.match(line):
                heading = title.group(1)
            elif ANY_OF.search(line) and any(same_verb(verb, word) for word in WORD.findall(line)):
                acted, about = things(tool), WORD.findall(f"{heading} {line}")
                alone = [name for name in tools if same_verb(verb, verb_of(name))] == [tool]
                if (
                    acted
                    and not alone
                    and not (
                        any(has_stem(about, thing) for thing in acted)
                        or any(same_verb(verb, word) for word in WORD.findall(heading))
                    )
                ):
                    continue
                listed = takewhile(ITEM.match, dropwhile(lambda one: not one, lines[place + 1 :]))
                return [ITEM.sub("", one).strip() for one in listed]
        return self._any_of_in_prose(tool)

    def _any_of_in_prose(self, tool: str) -> list[str]:
        """Return what `any_of` does where one sentence says it and the next one goes on with `otherwise`."""
        verb, acted = verb_of(tool), things(tool)
        found: list[str] = []
        chained = False
        for number, one in enumerate(self.sentences):
            about = (
                not acted
                or any(has_stem(one.words, thing) for thing in acted)
                or any(same_verb(verb, word) for word in WORD.findall(one.heading))
            )
            following = self.sentences[number + 1].text if number + 1 < len(self.sentences) else ""
            goes_on = bool(OTHERWISE.match(following))
            allowed = [_allowance(part, verb) for part in clauses_of(one.text)] if about else []
            if not (chained or goes_on) or not any(allowed):
                if chained:
                    return []
                continue
            found += [condition for conditions in allowed for condition in conditions]
            chained = goes_on
            if not chained:
                break
        return found if len(found) > 1 else []

    @cached_property
    def sentences(self) -> list[Sentence]:
        """All sentences in order."""
        return sentences_of(self.text)

    def protected(self, tool: str) -> tuple[frozenset[str], str]:
        """Return the fields that a tool's changes must leave as they are, and the sentence that says so.

        >>> text = "Bookings can be modified without changing the origin, destination, and trip type."
        >>> sorted(PolicyText(text).protected("update_booking_flights")[0])
        ['destination', 'origin', 'trip type']
        """
        if tool not in self._protected:
            self._protected[tool] = self._find_protected(tool)
        return self._protected[tool]

    def _find_protected(self, tool: str) -> tuple[frozenset[str], str]:
        for sentence in self.sentences:
            listed = _WITHOUT.search(sentence.text)
            if listed is None or not speaks_of(sentence.text[: listed.start()], tool):
                continue
            parts = (part.strip() for part in re.split(r",|\band\b|\bor\b", listed.group(1)))
            return frozenset(part.removeprefix("the ") for part in parts if part), sentence.text
        return frozenset(), ""

    def forbids_past(self, tool: str) -> list[Sentence]:
        r"""Return the sentences that forbid what a tool does once something lies in the past.

        They stand under a heading of the tool's verb, or name the verb themselves.

        >>> text = "## Cancel flight\n- If a part has already been flown, the agent cannot help."
        >>> [len(PolicyText(text).forbids_past(one)) for one in ("cancel_booking", "book_flight")]
        [1, 0]
        """
        if tool not in self._past:
            verb = verb_of(tool)
            self._past[tool] = [
                one
                for one in self.sentences
                if _PAST.search(one.text)
                and FORBIDS.search(one.text)
                and any(same_verb(verb, word) for word in (*WORD.findall(one.heading), *one.words))
            ]
        return self._past[tool]

    def only_after(self, tool: str, writes: Iterable[str]) -> list[After]:
        """Return what must have been done before a tool is used.

        That is said by sentences that allow the tool *after* something else. Of several that begin alike and
        differ in a word (`delayed flights`, `cancelled flights`), each applies only to tasks with its word.

        >>> text = "If a flight is late you can send a voucher after changing or cancelling the booking."
        >>> found = PolicyText(text).only_after("send_voucher", ["update_booking", "cancel_booking"])
        >>> [sorted(one.before) for one in found]
        [['cancel_booking', 'update_booking']]
        >>> PolicyText("After changing the booking, send a voucher.").only_after("send_voucher", ["pay_bill"])
        []
        """
        asked = (tool, frozenset(writes))
        if asked not in self._after:
            self._after[asked] = self._find_after(*asked)
        return self._after[asked]

    def _find_after(self, tool: str, known: frozenset[str]) -> list[After]:
        acted = things(tool)
        if not acted:
            return []
        about = [one for one in self.sentences if all(has_stem(one.words, word) for word in acted)]
        rules = []
        for sentence in about:
            clause = _AFTER.search(sentence.text)
            allowed = sentence.text[: clause.start()] if clause else ""
            if clause is None or not ALLOWS.search(allowed):
                continue
            before = _done_tools(clause.group(1), tool, known)
            words = WORD.findall(allowed)
            if before and _says_deed(tool, words) and all(has_stem(words, word) for word in acted):
                rules.append(After(sentence.text, before, _telling(sentence, about)))
        return rules


def clauses_of(sentence: str) -> list[str]:
    """Return the parts of a sentence that each say of something what may be done with it.

    >>> clauses_of("flights can be moved only if they are insured and paid, and cars can always be moved.")
    ['flights can be moved only if they are insured and paid', 'cars can always be moved.']
    """
    return [part.strip() for part in _NEXT_CLAUSE.split(sentence)]


def _allowance(clause: str, verb: str) -> list[str]:
    """Return the conditions of which any allows what a verb does; none where a clause does not say so.

    >>> _allowance("all trips can be cancelled within 24 hours of booking, or if they were moved", "cancel")
    ['within 24 hours of booking', 'they were moved']
    >>> _allowance("otherwise, cheap trips can be cancelled only if they are insured", "cancel")
    ['they are insured']
    >>> [_allowance(f"trips can {one}be cancelled.", "cancel") for one in ("always ", "")]
    [['trips'], []]
    """
    found = _MAY_BE.match(OTHERWISE.sub("", clause).strip(" ."))
    if found is None or FORBIDS.search(clause) or not same_verb(verb, found["done"]):
        return []
    told = found["told"].strip(" ,")
    if not told:
        return [found["subject"].strip()] if found["how"] == "always" else []
    parts = [part.strip(" ,") for part in re.split(r",? \bor\b ", told)]
    return [re.sub(r"^(?:only )?(?:if|when|while|where) ", "", part) for part in parts if part]


def shown_policy(trajectories: Sequence[Trajectory], *, words_only: bool = True) -> str:
    """Return what the system messages of a target's runs say alike: the policy that their agents were shown.

    What differs from run to run (a request, a date, a name) is no rule of the domain, so only lines are kept
    that nearly all runs with a system message were shown. Lines that are JSON, such as lists of tools, say
    nothing to readers of sentences.

    Args:
        trajectories: Of one target, blind or not.
        words_only: Whether lines that are JSON are left out; a model reads them too.

    Returns:
        Lines of the system message that most runs begin with, in its order; empty where runs have none.
    """
    texts = [
        "\n".join(
            one.content for one in takewhile(lambda said: said.role == "system", run.messages) if one.content
        )
        for run in trajectories
    ]
    texts = [text for text in texts if text]
    if not texts:
        return ""
    counted = Counter(line for text in texts for line in set(text.splitlines()))
    often = max(Counter(texts).items(), key=lambda pair: (pair[1], pair[0]))[0]
    kept = (line for line in often.splitlines() if counted[line] >= _SHOWN * len(texts))
    return "\n".join(line for line in kept if not (words_only and _IS_JSON.match(line)))


def addresses_nobody(policy: str, runs: Sequence[Trajectory]) -> bool:
    """Tell whether a policy prescribes talk with a user although no run has one who answers.

    Recorded beside such runs it is not what their agent was shown: rules read from it would find breaches of
    what the agent never saw.
    """
    if not runs or not _TALKS.search(policy.lower()):
        return False
    return not any(sum(one.role == "user" and bool(one.content) for one in run.messages) > 1 for run in runs)


def _says_deed(tool: str, words: Sequence[str]) -> bool:
    """Tell whether some words say what a tool does; a voucher that is sent may be offered or granted."""
    giving = (verb for verb in GIVING if same_verb(verb_of(tool), verb))
    return is_deed(tool, words) or (
        next(giving, None) is not None and any(same_verb(verb, word) for verb in GIVING for word in words)
    )


def _telling(sentence: Sentence, about: Sequence[Sentence]) -> frozenset[tuple[str, str]]:
    """Return the words by which a sentence differs from its like, each with the word that follows."""
    found = set[tuple[str, str]]()
    for other in about:
        match = SequenceMatcher(None, sentence.words, other.words, autojunk=False)
        if other is sentence or match.ratio() < _LIKE:
            continue
        for kind, start, end, _, _ in match.get_opcodes():
            if kind == "replace" and end - start == 1 and end < len(sentence.words):
                found.add((sentence.words[start], sentence.words[end]))
                break
    return frozenset(found)


def _done_tools(clause: str, tool: str, writes: Iterable[str]) -> frozenset[str]:
    """Return the writing tools, others than this one, whose doing a clause speaks of."""
    words = WORD.findall(clause)
    doing = [word for word in words if word.endswith(("ing", "ed"))]
    return frozenset(
        one
        for one in writes
        if one != tool
        and any(same_verb(verb_of(one), word) for word in doing)
        and any(has_stem(words, thing) for thing in things(one))
    )
