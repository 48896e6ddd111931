"""What a policy asks of an object before a tool is used on it, beside its lists of alternatives.

Its sentences are read as the detectors read them: states that forbid, dates that have passed, spans before
and after dates, conditions that belong together, numbers and values that an argument may not have. Recipes
draw scenes that keep to it, and the audit holds the oracle's calls against it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trace_assets.diagnosis.detectors.identity import normal
from trace_assets.diagnosis.detectors.policy_clauses import Atom, clauses, holds
from trace_assets.diagnosis.detectors.policy_limits import given_bans, is_among, limits
from trace_assets.diagnosis.detectors.policy_rules import bans
from trace_assets.diagnosis.detectors.policy_subjects import forbids_deed
from trace_assets.diagnosis.detectors.policy_text import FORBIDS, PolicyText
from trace_assets.diagnosis.detectors.policy_windows import dates_meant, windows
from trace_assets.diagnosis.detectors.values import leaves, scalars_of, time_of
from trace_assets.diagnosis.detectors.verbs import WORD, has_stem, same_verb, spoken, things, verb_of
from trace_assets.diagnosis.detectors.wording import last_name

_DAY = len("2030-01-31")
_PASSED = re.compile(
    r"\b(?:already|past|passed|expired|elapsed|over|ended|finished|begun|started|took place|gone)\b"
)
"""What is said of a moment. Closed is a state: closed shops are no shops whose date has passed."""
_NOT_IF = re.compile(r"\bnot (?:if|when|while|once|where)\b")
"""How a sentence that allows goes on with what forbids: which condition is which could not be told."""
_NONE_OF_THEM = re.compile(
    r"\b(?:if|when|where|while|as long as|once|since) "
    r"(?:there (?:is|are) )?(?:none|nothing|nobody|neither|no)\b"
)
"""How a sentence says that it forbids where a condition does *not* hold: its words are no record's."""
_LEFT_UNDONE = re.compile(r"\b(?:is|are|be) (?:not|never) (?=(?:be )?[a-z]+(?:ed|en|t)\b)")
_LIGHT = frozenset(
    {"bring", "call", "carry", "cut", "get", "give", "hold", "lay", "let", "look", "make", "pick", "put"}
) | frozenset({"run", "set", "take", "turn", "write"})
_PARTICLES = frozenset({"aside", "away", "back", "down", "off", "on", "out", "over", "up"})
"""What makes another verb of these: who calls something off calls nobody."""
_NEXT_PART = re.compile(
    r"[:;.]|\s[-\u2013\u2014]\s"
    r"|,(?= *(?:but|so|please|instead|then|[a-z]+ (?:a|an|the|to|for|it|them)\b))"
)
"""Where a sentence that has forbidden something goes on with what to do instead."""
_QUOTED = re.compile(r"'[^']{2,40}'|\"[^\"]{2,40}\"|`[^`]{2,40}`")


@dataclass(frozen=True)
class Breach:
    """One thing that a policy forbids about a call.

    Attributes:
        sentence: What says so, in the policy's words.
        field: Of the record, dotted, or the argument.
        value: What it is.
    """

    sentence: str
    field: str
    value: str


class RecordRules:
    """What a policy says of one tool's use.

    Sentences that only allow by one of several listed conditions are left out: of these one suffices.

    Args:
        policy: The policy.
        tool: The tool.
        tools: All tools that change something.
        values: By field, dotted, the values that records of its objects have outside their lists.
        given: By argument, the values that the tool is called with.
        dates: By field, a date of a record, of those in lists too; None takes those of `values`.

    >>> text = PolicyText("It is 2031-05-01. Shipped orders cannot be changed. Orders whose pick-up date "
    ...                   "is in the past can no longer be changed.")
    >>> known = {"state": ["shipped", "packed"], "pickup_date": ["2031-04-30"]}
    >>> rules = RecordRules(text, "change_order", ["change_order"], known)
    >>> rules.forbids("state", "shipped"), rules.forbids("state", "packed")
    (True, False)
    >>> [one.field for one in rules.breaches({"state": "packed", "pickup_date": "2031-04-30"}, {})]
    ['pickup_date']
    """

    def __init__(
        self,
        policy: PolicyText,
        tool: str,
        tools: Sequence[str],
        values: Mapping[str, Collection[str]],
        given: Mapping[str, Collection[str]] | None = None,
        dates: Mapping[str, str] | None = None,
    ) -> None:
        called = {argument: {str(one) for one in own} for argument, own in (given or {}).items()}
        listed = policy.any_of(tool, tools)

        def is_meant(sentence: str) -> bool:
            told = means(sentence, tool, tools) and not is_instead(sentence, tool, tools)
            told = told and not _NONE_OF_THEM.search(sentence)
            return told and not any(one in sentence for one in listed)

        self.tool, self.now, self._today = tool, policy.now, policy.clock
        self._bans = [one for one in bans(policy, tool, values, called, (), tools) if is_meant(one.sentence)]
        self._windows = [one for one in windows(policy, tool) if self.now and is_meant(one.sentence)]
        states = {one.sentence for one in self._bans}
        self._past = [
            one
            for one in policy.forbids_past(tool)
            if self._today and is_meant(one.text)
            if "date" in one.words or (one.text not in states and _PASSED.search(one.text))
        ]
        read = clauses(policy, tool, values, called)
        mixed = read is not None and any(_NOT_IF.search(one) for one in read.sentences)
        self._clauses = read if read and not mixed and all(map(is_meant, read.sentences)) else None
        self._limits = limits(policy, tool, called)
        # A value such as 'no longer needed' forbids nothing by its own words.
        self._given = [
            one
            for one in given_bans(policy, tool, called)
            if forbids_deed(_QUOTED.sub(" ", one.sentence), tool)
        ]
        self._dated = (
            list(dates.items())
            if dates is not None
            else [(field, one) for field, own in values.items() for one in list(own)[:1] if time_of(one)]
        )

    def breaches(self, record: Mapping[str, Any], arguments: Mapping[str, Any]) -> Iterator[Breach]:
        """Yield what the policy forbids about a call on an object with this record.

        A field that the call changes itself is not held against it.
        """
        fields = {
            field: value
            for field, value in scalars_of(record).items()
            if (given := arguments.get(last_name(field))) is None or normal(given) == normal(value)
        }
        for ban in self._bans:
            if ban.forbids(fields, arguments):
                yield Breach(ban.sentence, ban.field, fields[ban.field])
        for window in self._windows:
            for field in window.fields(one for one, value in fields.items() if time_of(value) is not None):
                if window.is_missed(fields[field], str(self.now)):
                    yield Breach(window.sentence, field, fields[field])
        for sentence in self._past:
            for field, value in dates_meant(sentence, leaves(record)):
                if value < str(self._today) and arguments.get(last_name(field)) is None:
                    yield Breach(sentence.text, field, value)
        if self._clauses and self._clauses.broken_by(fields, self.now):
            known = [one for one in self._clauses.fields if one in fields]
            yield Breach(
                " ".join(self._clauses.sentences), ", ".join(known), ", ".join(fields[one] for one in known)
            )
        for most in self._limits:
            if (name := most.broken_by(arguments)) is not None:
                yield Breach(most.sentence, name, str(arguments[name]))
        for banned in self._given:
            if is_among(arguments.get(banned.argument), banned.values):
                yield Breach(banned.sentence, banned.argument, str(arguments[banned.argument]))

    def forbids(self, field: str, value: object) -> bool:
        """Tell whether a field's value alone forbids the tool, whatever the others are."""
        alone = scalars_of({field: value})
        text = alone.get(field)
        if text is None:
            return False
        if any(ban.field == field and ban.forbids(alone) for ban in self._bans):
            return True
        if self._clauses and self._clauses.broken_by(alone, self.now):
            return True
        if time_of(text) is None:
            return False
        dated = [(one, text if one == field else other) for one, other in self._dated]
        return any(
            (field, text[:_DAY]) in dates_meant(one, dated) and text[:_DAY] < str(self._today)
            for one in self._past
        ) or any(one.fields([field]) and one.is_missed(text, str(self.now)) for one in self._windows)

    def forbids_argument(self, argument: str, value: object) -> bool:
        """Tell whether the tool must not be given a value."""
        return any(one.broken_by({argument: value}) for one in self._limits) or any(
            one.argument == argument and is_among(value, one.values) for one in self._given
        )

    def together(self, decided: Collection[str]) -> Iterator[tuple[str, Atom, bool]]:
        """Yield tests that scenes have to settle since several fields forbid, or allow, together only.

        Args:
            decided: Fields that decide on purpose: they stay as they are.

        Yields:
            Field, test, and whether it has to hold.
        """
        if self._clauses is None:
            return
        for atoms in self._clauses.forbidden:
            free = [atom for atom in atoms if atom and atom["field"] not in decided]
            if len(atoms) > 1 and free:
                yield free[0]["field"], free[0], False
        readable = [atoms for atoms in self._clauses.allowed if all(atoms)]
        if readable and len(readable) == len(self._clauses.allowed):
            for atom in min(readable, key=len):
                if atom["field"] not in decided:
                    yield atom["field"], atom, True

    def settles(self, atom: Atom, field: str, value: object, wanted: bool) -> bool:
        """Tell whether a field's value makes a test hold, or not, as wanted."""
        return holds(atom, scalars_of({field: value}), self.now) is wanted


def means(sentence: str, tool: str, tools: Sequence[str]) -> bool:
    """Tell whether a sentence may be about a tool, and not about others that do the same with something else.

    >>> tools = ["change_booking_seats", "change_booking_flights"]
    >>> [means("no flight of a saver booking can be changed.", one, tools) for one in tools]
    [False, True]
    """
    alike = [one for one in tools if one != tool and same_verb(verb_of(tool), verb_of(one))]
    own = set(things(tool)).difference(*(things(one) for one in alike))
    return not alike or not own or any(has_stem(WORD.findall(sentence), one) for one in own)


def is_instead(sentence: str, tool: str, tools: Sequence[str]) -> bool:
    """Tell whether a sentence forbids what another tool does and names this one for another reason.

    >>> tools = ["renew_loan", "ask_librarian", "reserve_book"]
    >>> text = "a loan whose book is reserved must not be renewed: ask a librarian."
    >>> [is_instead(text, one, tools) for one in tools]
    [False, True, True]
    >>> text = "shipped orders cannot be returned, cancelled or changed."
    >>> is_instead(text, "cancel_order", ["return_order", "cancel_order", "change_order"])
    False
    >>> is_instead("renewing is not possible once a book is reserved.", "renew_loan", tools)
    False
    >>> tools = ["cancel_repair", "call_master"]
    >>> is_instead("a repair that has begun is not called off: pass it on with call_master.", tools[1], tools)
    True
    """
    found = FORBIDS.search(sentence) or _LEFT_UNDONE.search(sentence)
    if found is None:
        return False
    before, after = sentence[: found.start()], sentence[found.end() :]
    parts = [*_NEXT_PART.split(after, maxsplit=1), ""][:2]
    forbidden = WORD.findall(parts[0])
    # What must not *be done* is named behind it; else it may stand before (*renewing is not possible*).
    said = forbidden if forbidden[:1] == ["be"] else [*WORD.findall(before), *forbidden]
    if _says(tool, said):
        return False
    named = re.search(rf"(?<!\w){re.escape(tool)}(?!\w)", parts[1]) is not None
    return named or any(_says(one, forbidden) for one in tools if one != tool)


def _says(tool: str, words: Sequence[str]) -> bool:
    """Tell whether words name what a tool does, by its verb; `call off` is another verb than `call`."""
    verb, own = verb_of(tool), set(WORD.findall(spoken(tool)))
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if same_verb(verb, word) and not (verb in _LIGHT and following in _PARTICLES - own):
            return True
    return False
