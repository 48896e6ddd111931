"""What a domain's policy says in forms that can be read without understanding it: its clock, and three rules.

Each reader gives up on what it cannot read, so that nothing is made of a sentence it has not understood.
English only; a policy in another language gives no rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache, cached_property
from itertools import dropwhile, takewhile

from trace_assets.diagnosis.detectors.mutation import READING, WRITING
from trace_assets.diagnosis.detectors.wording import spoken
from trace_assets.records import Trajectory

_SAYS_NOW = (
    r"(?:current\s+(?:date(?: and time)?|time|day)|today(?:'s date)?|(?:date|time) (?:today|now)|now)"
    r"(?:\s+is\b|\s*:)?[\s*:]*(?:[a-z]+day,?\s+)?\**"
)
_CLOCK = re.compile(rf"\b{_SAYS_NOW}(\d{{4}}-\d{{2}}-\d{{2}})", re.IGNORECASE)
_MOMENT = re.compile(
    rf"\b{_SAYS_NOW}(\d{{4}}-\d{{2}}-\d{{2}})[ T](\d{{2}}:\d{{2}}(?::\d{{2}})?)", re.IGNORECASE
)
_ANY_OF = re.compile(r"\b(?:if|when)\b.*\b(?:any|one|either|at least one) of (?:the following|these)\b")
_HEADING = re.compile(r"^(?:#+\s*(?=\S)|(?=\*\*[^*]+\*\*:?$))(.+?)\s*$")
_ITEM = re.compile(r"(?:[-*•]|\(?(?:\d+|[a-z])[.)])\s*(?=\S)")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+")
FORBIDS = re.compile(
    r"\b(cannot|can't|can not|not (?:be )?(?:allowed|permitted|possible|eligible)|unable|"
    r"(?:must|may|should|shall|do|does|will) not|mustn't|shouldn't|don't|never|no longer|"
    r"prohibited|forbidden|refuse to|get no|non-?[a-z]+able)\b"
)
"""Words of a sentence that forbids something."""
_PAST = re.compile(
    r"\b(already|past|expired|elapsed|over|ended|finished|begun|started|closed|took place|gone)\b"
)
_ALLOWS = re.compile(r"\b(can|may|only|must|should|allowed)\b")
_AFTER = re.compile(r"\b(?:after|once)\b([^.;]*)")
_WITHOUT = re.compile(r"\bwithout changing (?:the |its |their )?([^.;:]*)")
_TALKS = re.compile(r"\b(?:ask|tell|inform|remind|respond to) (?:the |a )?(?:user|customer)s?\b")
_WORD = re.compile(r"[a-z]+")
_ALIKE: tuple[frozenset[str], ...] = (
    frozenset({"change", "modify", "update", "edit", "adjust"}),
    frozenset({"cancel"}),
    frozenset({"book", "reserve", "create"}),
    frozenset({"return", "refund"}),
    frozenset({"exchange", "replace", "swap"}),
    frozenset({"transfer", "escalate"}),
    frozenset({"send", "issue", "offer", "grant", "give"}),
    frozenset({"resume", "lift", "reactivate"}),
    frozenset({"reschedule", "move", "postpone", "rebook"}),
    frozenset({"renew", "extend", "prolong"}),
    frozenset({"reissue", "replace"}),
    frozenset({"waive", "forgive"}),
    frozenset({"delete", "remove", "erase"}),
    frozenset({"block", "freeze", "lock", "suspend"}),
    frozenset({"enroll", "register"}),
)
"""Verbs that policies and tools use for one thing."""
_IRREGULAR = {
    "buy": ("bought",),
    "give": ("gave", "given"),
    "lend": ("lent",),
    "make": ("made",),
    "pay": ("paid", "payment"),
    "sell": ("sold",),
    "send": ("sent",),
    "withdraw": ("withdrew", "withdrawn"),
    "write": ("written", "wrote"),
}
_SHORT = 4
"""Letters up to which a verb is told by its exact forms: longer words begin like short verbs by chance."""
_FILLERS = frozenset({"to", "the", "a", "an", "of", "for", "by", "in", "on", "with", "and", "or"})
_LIKE = 0.5
"""How alike two sentences must be to be two cases of one rule."""


@dataclass(frozen=True)
class Sentence:
    """One sentence, lower case, under its heading.

    Attributes:
        text: The sentence.
        heading: The nearest heading above it.
    """

    text: str
    heading: str = ""

    @cached_property
    def words(self) -> list[str]:
        """Its words."""
        return _WORD.findall(self.text)


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


class PolicyText:
    """A policy and what can be read from it; what was read for a tool is kept, as many tasks ask for it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._protected: dict[str, tuple[frozenset[str], str]] = {}
        self._past: dict[str, list[Sentence]] = {}
        self._after: dict[tuple[str, frozenset[str]], list[After]] = {}

    @cached_property
    def clock(self) -> str | None:
        """Today as the policy says it (ISO date)."""
        found = _CLOCK.search(self.text)
        return found.group(1) if found else None

    @cached_property
    def now(self) -> str | None:
        """The moment as the policy says it (ISO date, and time where it is told)."""
        found = _MOMENT.search(self.text)
        return f"{found.group(1)} {found.group(2)}" if found else self.clock

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
        lines = _listed_apart(line.strip().lower() for line in self.text.splitlines())
        heading, verb = "", verb_of(tool)
        for place, line in enumerate(lines):
            if title := _HEADING.match(line):
                heading = title.group(1)
            elif _ANY_OF.search(line) and any(same_verb(verb, word) for word in _WORD.findall(line)):
                acted, about = things(tool), _WORD.findall(f"{heading} {line}")
                alone = [name for name in tools if same_verb(verb, verb_of(name))] == [tool]
                if (
                    acted
                    and not alone
                    and not (
                        any(_has_stem(about, thing) for thing in acted)
                        or any(same_verb(verb, word) for word in _WORD.findall(heading))
                    )
                ):
                    continue
                listed = takewhile(_ITEM.match, dropwhile(lambda one: not one, lines[place + 1 :]))
                return [_ITEM.sub("", one).strip() for one in listed]
        return []

    @cached_property
    def sentences(self) -> list[Sentence]:
        """All sentences in order."""
        found: list[Sentence] = []
        heading = ""
        for line in self.text.splitlines():
            title = _HEADING.match(line)
            if title:
                heading = title.group(1).lower()
            else:
                parts = _SENTENCE.split(line.strip(" \t-*•").lower())
                found += [Sentence(part, heading) for part in parts if part]
        return found

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
            if listed is None or not _speaks_of(sentence.text[: listed.start()], tool):
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
                and any(same_verb(verb, word) for word in (*_WORD.findall(one.heading), *one.words))
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
        about = [one for one in self.sentences if all(_has_stem(one.words, word) for word in acted)]
        rules = []
        for sentence in about:
            clause = _AFTER.search(sentence.text)
            allowed = sentence.text[: clause.start()] if clause else ""
            if clause is None or not _ALLOWS.search(allowed):
                continue
            before = _done_tools(clause.group(1), tool, known)
            if before and all(_has_stem(_WORD.findall(allowed), word) for word in acted):
                rules.append(After(sentence.text, before, _telling(sentence, about)))
        return rules


def addresses_nobody(policy: str, runs: Sequence[Trajectory]) -> bool:
    """Tell whether a policy prescribes talk with a user although no run has one who answers.

    Recorded beside such runs it is not what their agent was shown: rules read from it would find breaches of
    what the agent never saw.
    """
    if not runs or not _TALKS.search(policy.lower()):
        return False
    return not any(sum(one.role == "user" and bool(one.content) for one in run.messages) > 1 for run in runs)


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
    words = _WORD.findall(clause)
    doing = [word for word in words if word.endswith(("ing", "ed"))]
    return frozenset(
        one
        for one in writes
        if one != tool
        and any(same_verb(verb_of(one), word) for word in doing)
        and any(_has_stem(words, thing) for thing in things(one))
    )


def _speaks_of(text: str, tool: str) -> bool:
    """Tell whether a text uses a tool's verb and the thing it acts on."""
    words, verb = _WORD.findall(text.lower()), verb_of(tool)
    acted = things(tool)
    return any(same_verb(verb, word) for word in words) and any(_has_stem(words, one) for one in acted)


def names_deed(text: str, tool: str) -> bool:
    """Tell whether a text has a form of a tool's verb.

    >>> names_deed("Could you have it cancelled?", "cancel_order"), names_deed("Where is it?", "cancel_order")
    (True, False)
    """
    verb = verb_of(tool)
    return any(same_verb(verb, word) for word in _WORD.findall(text.lower()))


def speaks_of(text: str, tool: str) -> bool:
    """Tell whether a text uses a tool's verb, or one for the same, and the thing it acts on.

    >>> speaks_of("Before cancelling an order, look at it.", "cancel_order")
    True
    """
    return bool(things(tool)) and _speaks_of(text, tool)


def _listed_apart(lines: Iterable[str]) -> list[str]:
    """Return lines, with what a line lists behind a colon, parted by semicolons, as a list under it."""
    found: list[str] = []
    waiting = ""
    for line in lines:
        waiting = f"{waiting} {line}" if waiting else line
        head, colon, rest = waiting.partition(":")
        if not (_ANY_OF.search(head) and colon and rest.strip()):
            found.append(waiting)
            waiting = ""
        elif line and ("." not in rest or rest.rstrip().endswith(";")):
            continue  # the list goes on in the next line
        else:
            listed, dot, after = rest.partition(".")
            parts = [part.strip() for part in listed.split(";")]
            found += [f"{head}:", *(f"- {part}" for part in parts)] if len(parts) > 1 else [waiting]
            found += [after.strip()] if dot and after.strip() and len(parts) > 1 else []
            waiting = ""
    return [*found, waiting] if waiting else found


@cache
def things(tool: str) -> tuple[str, ...]:
    """Return the words for what a tool acts on."""
    return tuple(word for word in spoken(tool).split()[1:] if word not in _FILLERS)


@cache
def verb_of(tool: str) -> str:
    """Return the verb of a tool's name: its first word that is one."""
    words = spoken(tool).split()
    return next((word for word in words if word in WRITING or word in READING), words[0] if words else "")


@cache
def same_verb(verb: str, word: str) -> bool:
    """Tell whether a word is a form of a verb, or of one that policies use for it.

    >>> [same_verb("update", word) for word in ("changing", "modified", "cancelled")]
    [True, True, False]
    """
    alike = next((group for group in _ALIKE if verb in group), frozenset({verb}))
    return any(_is_form(one, word) for one in alike)


def _is_form(verb: str, word: str) -> bool:
    if word in _IRREGULAR.get(verb, ()):
        return True
    if len(verb) <= _SHORT:
        stem = verb.removesuffix("e")
        return word.startswith(stem) and word[len(stem) :] in (
            "",
            "e",
            "s",
            "es",
            "ed",
            "ing",
            stem[-1:] + "ing",
        )
    stem = verb[:-1] if verb.endswith(("e", "y")) else verb
    return word.startswith(stem) and len(word) <= len(stem) + 6


def _has_stem(words: Iterable[str], wanted: str) -> bool:
    stem = wanted[: max(4, len(wanted) - 2)]
    return any(word.startswith(stem) for word in words)
