"""What a policy forbids to do with what: by a value of the object's record, or beyond a number.

Read from single sentences, held against values that records really have. A sentence with an exception, or one
whose condition has parts that cannot be read, gives no rule: it is better to see nothing than to accuse
wrongly. English only.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from itertools import chain
from typing import Any

from trace_assets.diagnosis.detectors.policy_lines import Sentence
from trace_assets.diagnosis.detectors.policy_text import FORBIDS, OTHERWISE, PolicyText, clauses_of
from trace_assets.diagnosis.detectors.values import categorical, time_of
from trace_assets.diagnosis.detectors.verbs import (
    GIVING,
    has_stem,
    is_deed,
    same_verb,
    speaks_of_change,
    things,
    verb_of,
)
from trace_assets.diagnosis.detectors.wording import last_name, plain_name, spoken

_EXCEPTION = re.compile(
    r"\b(unless|except|apart from|other than|instead of|even|including|regardless|without)\b"
)
_ONLY_IF = re.compile(r"\bonly\b[^,;]*?\b(?:if|when|while|whose|where|that (?:is|are|has|have))\b(.*)")
_IF_ONLY = re.compile(r"\b(?:if|when|provided that)\b([^,;]*)")
_ONLY_THOSE = re.compile(r"^only (.+?) (?:can|may|are|is|will)\b")
_QUOTED = re.compile(r"['\"‘“]([^'\"’”]{2,40})['\"’”]")
_NEGATED = re.compile(r"\b(not|no|never|without)\b|n't\b")
_WORD = re.compile(r"[a-z]+")
_LABEL = re.compile(r"([a-z]+(?: [a-z]+){1,2}): ")
"""What a line is about, written before it: `change flights: ...`."""
_TO = r"\b(?:to|into|for|with|as|by) (?:the |a |an )?{}\b"
"""How a sentence says what something is changed to, or done with."""
_GENERIC = frozenset({"make", "create", "add", "set", "place", "submit", "open", "do", "post", "put", "send"})
"""Verbs that say nothing of what is done: the thing does."""
_GETS = re.compile(r"\b(?:get|gets|receive|receives|entitled to|eligible for)\b")
"""What somebody does to whom something is given."""
_MANY = (
    r"(?P<sign>[$€£])?\s?(?P<number>\d[\d,]*(?:\.\d+)?|one|two|three|four|five|six|seven|eight|nine|ten|twelve)"
    r"\s?(?P<noun>[a-z%€]+(?: [a-z]+)?)?"
)
_MOST = re.compile(
    r"(?:\b(?:at most|no more than|not more than|up to|a maximum of|maximum of|limited to|larger than|"
    r"(?:may|can|must|should)(?:not| not) exceed|cannot exceed|not exceed|exceeding|more than|above|over|"
    r"limit (?:is|of)|the most [a-z ]{3,40}? (?:is|are))\s+)" + _MANY
)
_MOST_BEHIND = re.compile(
    rf"{_MANY} (?:at (?:the )?most|or (?:less|fewer|under|below)|(?:at )?max(?:imum)?|and no more)\b"
)
_BEYOND = re.compile(r"\b(exceeding|larger than|more than|above|over)\s")
_UNITS = frozenset({"gb", "kb", "kg", "km", "mb", "tb"})
"""Short words that arguments name what they count by."""
_PER = re.compile(r"\b(?:per|each|every|times|multiplied by|for each)\s+(?:the )?([a-z]+)")
_NUMBERS = {
    word: float(number)
    for number, word in enumerate(
        ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"), 1
    )
}
_MONEY = frozenset({"eur", "euro", "euros", "usd", "dollar", "dollars", "gbp", "pounds", "chf", "yen"})
_SUMS = re.compile(r"(?:^|[._])(?:amount|price|sum|value|total|cost|payment|fee|refund|credit)(?:$|_)")
_WHO = frozenset({"actor", "agent", "author", "by", "from", "role", "sender", "source"})
"""Fields that tell who said something, which is no state of what it is about."""
_SPANS = frozenset(
    {"day", "week", "month", "year", "booking", "order", "request", "call", "time", "transaction"}
)
"""What a limit may be counted by without another number that would have to be known."""
_BEGUN = re.compile(r"\b(begun|started|begins?|starts?|departed|left|checked in)\b")
_BEGINS = re.compile(r"(?:^|[._])(?:start\w*|begin\w*|from|arriv\w*|depart\w*|check_?in|pick_?up)(?:[._]|$)")
_ENDED = re.compile(r"\b(over|ended|finished|expired|elapsed|closed)\b")
_ENDS = re.compile(r"(?:^|[._])(?:ends?|expir\w*|due|until|valid\w*|deadline|return\w*|check_?out)(?:[._]|$)")
_DONE = re.compile(
    r"(?:^|[._])(?:creat\w*|made|last|issued?|updated|ordered|placed|paid|charged|booked|birth|dob|joined|since)"
    r"(?:[._]|$)"
)
"""Fields that tell when something was done or born, which always lies behind."""
_LENGTH = r"(?P<number>\d+|" + "|".join(_NUMBERS) + r") (?P<unit>hour|day|week)s?"
_DATE = r" (?:the |its |their |your )?(?P<what>[a-z ]+)"
_WINDOWS = (
    (
        re.compile(
            rf"\b(?:at least|no later than|a minimum of|more than) {_LENGTH} "
            rf"(?:before|prior to|ahead of){_DATE}"
        ),
        True,
        False,
    ),
    (re.compile(rf"\b(?:less than|fewer than|within) {_LENGTH} (?:before|prior to){_DATE}"), True, True),
    (
        re.compile(
            rf"\b(?:within|for|have|(?:no|not) (?:later|more) than|at most|up to) (?:the first )?{_LENGTH} "
            rf"(?:of|after|from|since|following){_DATE}"
        ),
        False,
        False,
    ),
    (re.compile(rf"\b(?:more than|later than) {_LENGTH} (?:after|from|since){_DATE}"), False, True),
    (re.compile(rf"(?P<what>[a-z]+(?: [a-z]+)?) (?:more|longer) than {_LENGTH} ago\b"), False, True),
    (re.compile(rf"(?P<what>[a-z]+),?(?: that| which)?(?: is| are)? older than {_LENGTH}\b"), False, True),
    (
        re.compile(
            r"\b(?:can|may|only|possible|accepted|allowed|permitted|eligible)\b[^,;]*"
            rf"\b(?:within|for|up to) {_LENGTH}(?P<what>)(?=[,;]|\W*\Z)"
        ),
        False,
        False,
    ),
    (re.compile(rf"\bafter {_LENGTH}(?P<what>)(?=[,;]|\W*\Z)"), False, True),
)
"""How it is said, whether the date lies ahead, and whether the sentence forbids."""
_HOURS = {"hour": 1.0, "day": 24.0, "week": 168.0}
_DATED = re.compile(r"(?:19|20)\d\d-\d\d-\d\d")


@dataclass(frozen=True)
class Ban:
    """A tool may not be used on objects with certain values of a field, or only on those.

    Attributes:
        sentence: What says so.
        field: Of the object's record, dotted.
        values: As said, lower case.
        only: Whether these are the only ones that are allowed.
        given: Of these values one must be given to the tool for the sentence to apply; empty: it always does.
    """

    sentence: str
    field: str
    values: tuple[str, ...]
    only: bool
    given: frozenset[str] = frozenset()

    def forbids(self, fields: Mapping[str, str], arguments: Mapping[str, Any] | None = None) -> bool:
        """Tell whether an object with these fields may not be used so; what is not known forbids nothing."""
        value = fields.get(self.field)
        if self.given and arguments is not None:
            told = {spoken(one) for one in arguments.values() if isinstance(one, str)}
            if told.isdisjoint(self.given):
                return False
        return value is not None and (spoken(value) in self.values) != self.only


@dataclass(frozen=True)
class Most:
    """An argument of a tool may have so much, or so many, and no more.

    Attributes:
        sentence: What says so.
        number: The most.
        noun: What is counted, lower case; empty for money.
    """

    sentence: str
    number: float
    noun: str

    def broken_by(self, arguments: Mapping[str, Any]) -> str | None:
        """Return the argument that goes beyond it, None when none does."""
        for name, value in arguments.items():
            if isinstance(value, list | tuple):
                if self.noun and _is_noun(name, self.noun) and len(value) > self.number:
                    return name
            elif isinstance(value, int | float) and not isinstance(value, bool):
                of_it = _is_noun(name, self.noun) if self.noun else bool(_SUMS.search(name))
                if of_it and value > self.number:
                    return name
        return None


@lru_cache(maxsize=1 << 14)  # the same policy is asked for every tool, task and batch
def forbids_deed(text: str, tool: str) -> bool:
    """Tell whether a text forbids something, or says of what a tool does that it is not done.

    >>> forbids_deed("sent orders are not cancelled", "cancel_order")
    True
    >>> forbids_deed("final sale: no returns", "refund_order"), forbids_deed("no fees", "refund_order")
    (True, False)
    >>> forbids_deed("names are not protected", "cancel_order")
    False
    """
    said = FORBIDS.search(text) is not None
    return said or any(is_deed(tool, [one[1] or one[2]]) for one in _LEFT_UNDONE.finditer(text))


_LEFT_UNDONE = re.compile(
    r"\b(?:is|are|be) (?:not|never) (?:be )?([a-z]+(?:ed|en|t|ble))\b|\bno ([a-z]+(?:s|ion|ment|al)|refund)\b"
)


def bans(
    policy: PolicyText,
    tool: str,
    values: Mapping[str, Collection[str]],
    given: Mapping[str, Collection[str]] | None = None,
    optional: Collection[str] = (),
    tools: Iterable[str] = (),
) -> list[Ban]:
    """Return what a policy forbids to do with a tool, by a value of the object's record.

    Args:
        policy: The policy.
        tool: Its name.
        values: By field, the values that records of its objects have in any run.
        given: By argument, the values that the tool is called with: a sentence that names one of them, beside
            one of a record, forbids only calls with it.
        optional: Fields that only some of the records have: that one has it may be what forbids.
        tools: All that change something: what stands under another one's label is not about this one.

    >>> said = "Shipped orders cannot be cancelled. Bills can only be paid if the status is 'open'."
    >>> text = PolicyText(said)
    >>> [(one.values, one.only) for one in bans(text, "cancel_order", {"state": ["shipped", "new"]})]
    [(('shipped',), False)]
    >>> [(one.values, one.only) for one in bans(text, "pay_bill", {"status": ["open", "closed"]})]
    [(('open',), True)]
    >>> text = PolicyText("Trade accounts cannot be switched to the Family plan.")
    >>> [one] = bans(text, "switch_account", {"kind": ["trade"]}, {"plan": ["Family", "Night"]})
    >>> [one.forbids({"kind": "trade"}, {"plan": plan}) for plan in ("Family", "Night")]
    [True, False]
    >>> text = PolicyText("Change seats: cheap trips cannot be changed.")
    >>> own = ["change_trip_seats", "change_trip_names"]
    >>> [len(bans(text, one, {"fare": ["cheap"]}, tools=own)) for one in own]
    [1, 0]
    """
    known = {
        field: {spoken(value) for value in own if categorical(value) and len(value) > 2}
        for field, own in values.items()
        if last_name(field) not in _WHO
    }
    found = []
    told_values = {
        spoken(one) for own in (given or {}).values() for one in own if categorical(one) and len(one) > 2
    }
    for sentence in policy.sentences:
        if not (_speaks_of(sentence, tool) or speaks_of_change(sentence.text, tool, given or ())):
            continue
        if OTHERWISE.match(sentence.text) or _is_anothers(sentence, tool, tools):
            continue  # what it says holds only where the sentence before it does not
        told = _only(sentence.text)
        if (only := _ONLY_IF.search(sentence.text)) and any(
            _named(sentence.text[: only.start()], known, False, tool)
        ):
            continue  # it is about some of the objects, and which these are the rule could not say
        if told is not None:
            found += [Ban(sentence.text, *one, only=True) for one in _named(told, known, True, tool)]
            found += [Ban(sentence.text, *one, only=True) for one in _switched(told, values)]
        elif forbids_deed(sentence.text, tool) and not _EXCEPTION.search(sentence.text):
            found += [Ban(sentence.text, *one, only=False) for one in _switched(sentence.text, values)]
            had = [one for one in optional if _has_it(sentence.text, one)]
            found += [Ban(sentence.text, one, (), only=True) for one in had]
            named = [] if had else list(_named(sentence.text, known, False, tool))
            of_records = {value for _, own in named for value in own}
            asked = frozenset(
                one
                for one in _said(sentence.text, told_values - of_records)
                if not _is_tools(one, tool) and re.search(_TO.format(re.escape(one)), sentence.text)
            )
            found += [Ban(sentence.text, *one, only=False, given=asked) for one in named]
    return found


def _switched(text: str, values: Mapping[str, Collection[str]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield (field, value) of what is on or off, or is a mark that a thing has, where a text says so.

    >>> list(_switched("while its freeze is on", {"FREEZE": ["on", "off"], "state": ["on"]}))
    [('FREEZE', ('on',))]
    >>> list(_switched("final sale: no returns", {"final_sale": ["true", "false"]}))
    [('final_sale', ('true',))]
    """
    for field, own in values.items():
        if own and {one.lower() for one in own} <= {"on", "off"}:
            name = re.escape(spoken(last_name(field)))
            if (said := re.search(rf"\b{name} (?:is|are) (?:still )?(on|off)\b", text)) is not None:
                yield field, (said[1],)
        yes = {one.lower() for one in own} & {"true", "yes"}
        if yes and {one.lower() for one in own} <= {"true", "yes", "false", "no"}:
            name = re.escape(spoken(last_name(field)).removeprefix("is "))
            if re.search(rf"(?<![\w-])(?<!not )(?<!no ){name}s?(?![\w-])", text):
                yield field, tuple(sorted(yes))


def _has_it(text: str, field: str) -> bool:
    """Tell whether a text speaks of what has a field.

    >>> _has_it("never settle a claim for which they report an exclusion", "reply.exclusion")
    True
    """
    return (
        re.search(
            rf"\b(?:with|ha[sd]|have|having|report\w*|show\w*|carr(?:y|ies)|contain\w*|under|bear\w*) "
            rf"(?:an?|any|some|the) (?:[a-z]+ )?{re.escape(spoken(last_name(field)))}\b",
            text,
        )
        is not None
    )


def optional_fields(records: Iterable[Mapping[str, str]]) -> list[str]:
    """Return the fields that a record has and another, otherwise with the same fields, has not.

    >>> optional_fields([{"id": "A", "flag": "x"}, {"id": "B"}, {"name": "C", "size": "1"}])
    ['flag']
    """
    shapes = {frozenset(one) for one in records}
    return sorted({field for one in shapes for field in one if len(one) > 1 and one - {field} in shapes})


@dataclass(frozen=True)
class GivenBan:
    """A tool may not be given certain values.

    Attributes:
        sentence: What says so.
        argument: What must not have them.
        values: As given; one that ends with a stroke stands for all that lies under that path.
    """

    sentence: str
    argument: str
    values: tuple[str, ...]


def is_among(value: object, values: Iterable[str]) -> bool:
    """Tell whether a value is one of some, or lies under one that is a path.

    >>> is_among("/app/tests/a.py", ["/app/tests/"]), is_among("tests.py", ["tests/"])
    (True, False)
    """
    text = str(value)
    return any(
        text == one or (one.endswith("/") and f"/{one}".replace("//", "/") in f"/{text}") for one in values
    )


_FOLDER = re.compile(r"(?<![\w:/.])(?:\.{0,2}/)?(?:[\w.-]+/)+[\w-]*")
_TOUCHES = re.compile(r"\b(?:touch|edit|modif|chang|alter|writ|delet|remov|creat|mov)\w*")

_CONDITION = re.compile(r"\b(?:if|when|while|until|before|after|once|who|whose|which|that|where)\b")
_IN_PLACE = re.compile(r"\b(?:one|ones|it|them|these|those)\b")
_LITERAL = re.compile(r"[`'\"‘“]([^`'\"’”]{2,40})[`'\"’”]")


def given_bans(policy: PolicyText, tool: str, given: Mapping[str, Collection[str]]) -> list[GivenBan]:
    """Return the values that a policy names, in quotes, as those that a tool must not be given.

    >>> text = PolicyText("Drafts go to `review`. Never send one to `all`.")
    >>> [(one.argument, one.values) for one in given_bans(text, "send_draft", {"list": ["all", "review"]})]
    [('list', ('all',))]
    """
    found, before = [], ""
    for sentence in policy.sentences:
        text, previous, before = sentence.text, before, sentence.text
        if not forbids_deed(text, tool) or _EXCEPTION.search(text) or _CONDITION.search(text):
            continue
        folders = [f"{one.rstrip('/')}/" for one in _FOLDER.findall(text) if _TOUCHES.search(text)]
        for argument, values in given.items() if folders else ():
            under = [one for one in values if is_among(one, folders)]
            if under and len(under) < len(set(values)) and all("/" in one for one in values):
                found.append(GivenBan(text, argument, tuple(folders)))
        if _IN_PLACE.search(text):
            sentence = Sentence(text, f"{sentence.heading} {previous}")
        if not _speaks_of(sentence, tool):
            continue
        quoted = set(_LITERAL.findall(text))
        for argument, values in given.items():
            said = tuple(sorted(one for one in values if one.lower() in quoted))
            if said and len(said) < len(set(values)):
                found.append(GivenBan(text, argument, said))
    return found


def kinds_banned(policy: PolicyText, tool: str, known: Collection[str]) -> list[str]:
    """Return the kinds of things, of those that are known, with which a policy forbids to use a tool at all.

    They stand in the place of the thing that the tool is named after; a sentence with a condition or an
    exception before its colon gives none.

    >>> text = PolicyText("A mug, a vase is never refunded: call transfer. A lamp is not refunded when lit.")
    >>> kinds_banned(text, "refund_item", ["lamp", "mug", "rug", "vase"])
    ['mug', 'vase']
    """
    found = set[str]()
    for sentence in policy.sentences:
        text = re.split("[:;]", sentence.text)[0]
        if not FORBIDS.search(text) or _EXCEPTION.search(text) or _CONDITION.search(text):
            continue
        if is_deed(tool, _WORD.findall(text)):
            said = {spoken(one): one for one in known}
            found |= {said[one] for one in _said(text, said)}
    return sorted(found)


@dataclass(frozen=True)
class Mark:
    """A tool may not be used on what shows a certain word.

    Attributes:
        sentence: What says so.
        word: As the policy writes it.
    """

    sentence: str
    word: str


_NOT_DONE = re.compile(r"\b(?:is|are|be) (?:not|never) (?:be )?[a-z]+(?:ed|en|t)\b")
_CAPITALS = re.compile(r"(?<![\w`'\"])[A-Z][A-Z_-]{3,}(?![\w`'\"])")


def marks(policy: PolicyText, tool: str) -> list[Mark]:
    """Return the words, in capitals or quotes, that a policy says forbid a tool where a look shows them.

    >>> text = PolicyText("Files whose header says GENERATED are not edited by hand.")
    >>> [one.word for one in marks(text, "edit_file")]
    ['GENERATED']
    """
    found = []
    for sentence in policy.sentences:
        text = sentence.text
        if not (FORBIDS.search(text) or _NOT_DONE.search(text)) or _EXCEPTION.search(text):
            continue
        if not _MARKED.search(text) or not _speaks_of(sentence, tool):
            continue
        place = policy.text.lower().find(text)
        own = policy.text[place : place + len(text)] if place >= 0 else text
        words = [*_CAPITALS.findall(own), *_LITERAL.findall(own)]
        found += [Mark(text, word) for word in dict.fromkeys(words)]
    return found


_MARKED = re.compile(
    r"\b(?:says?|reads?|marked|labell?ed|tagged|flagged|contains?|shows?|bears?|starts? with)\b"
)


def limits(policy: PolicyText, tool: str, arguments: Iterable[str] = ()) -> list[Most]:
    """Return the numbers beyond which a policy does not allow an argument of a tool.

    A sentence on how large the thing itself may be counts where an argument has its unit. Where an argument
    is called by what is counted, the sentence need only name the thing, or only the deed.

    >>> text = PolicyText("A pass can be issued for up to 30 days.")
    >>> [(one.number, one.noun) for one in limits(text, "issue_pass")]
    [(30.0, 'days')]
    >>> text = PolicyText("You may approve refunds of 2,500 USD at most.")
    >>> [one.number for one in limits(text, "approve_refund", ["value"])]
    [2500.0]
    >>> text = PolicyText("A disk must not be larger than 40 GB.")
    >>> [(one.number, one.noun) for one in limits(text, "grow_disk", ["disk", "new_size_gb"])]
    [(40.0, 'gb')]
    >>> text = PolicyText("A service has at most 10 replicas.")
    >>> [(one.number, one.noun) for one in limits(text, "scale_service", ["service", "replicas"])]
    [(10.0, 'replicas')]
    >>> text = PolicyText("Nobody may book more than 15 days at a time.")
    >>> [(one.number, one.noun) for one in limits(text, "book_leave", ["start", "days"])]
    [(15.0, 'days')]
    """
    found, arguments = [], tuple(arguments)
    counted = {spoken(one).rstrip("s") for one in arguments}
    units = {part for one in arguments for part in spoken(one).split()} & _UNITS
    for sentence in policy.sentences:
        speaks = _speaks_of(sentence, tool)
        of_thing = bool(things(tool)) and all(_has(sentence.words, one) for one in things(tool))
        deed = is_deed(tool, sentence.words)
        if not (speaks or of_thing or deed) or _EXCEPTION.search(sentence.text):
            continue
        for match in chain(_MOST.finditer(sentence.text), _MOST_BEHIND.finditer(sentence.text)):
            if _BEYOND.match(match.group(0)) and not FORBIDS.search(sentence.text):
                continue
            per = _PER.search(sentence.text[match.start() :])
            if per and not {per.group(1), per.group(1).rstrip("s")} & {*_SPANS, *things(tool)}:
                continue
            said = match["number"]
            number = _NUMBERS[said] if said in _NUMBERS else float(said.replace(",", ""))
            noun = (match["noun"] or "").split(" ")[0]
            money = bool(match["sign"]) or noun in _MONEY or noun == "€"
            of_it = noun in units and (speaks or of_thing)
            if noun.rstrip("s") in counted or of_it or (speaks and (money or len(noun) > 2)):
                found.append(Most(sentence.text, number, "" if money else noun))
    return found


@dataclass(frozen=True)
class Window:
    """A tool may be used only so long before a date, or so long after one.

    Attributes:
        sentence: What says so.
        hours: How long.
        what: Words for the date.
        ahead: Whether the date must lie at least so far ahead; else it may lie at most so far behind.
    """

    sentence: str
    hours: float
    what: tuple[str, ...]
    ahead: bool

    def fields(self, names: Iterable[str], thing: Iterable[str] = ()) -> list[str]:
        """Return those of some fields that are named after the date.

        The date of the thing itself is the record's only one that is called by nothing else.

        >>> Window("", 48, ("payment",), ahead=False).fields(["date", "payee.since"], ["payment"])
        ['date']
        >>> Window("", 48, (), ahead=False).fields(["purchased_on", "valid_until"], ["order"])
        ['purchased_on']
        """
        if not self.what:  # no date is named: it is the only one that says when the thing was had
            had = [one for one in names if _ITS_OWN.issuperset(spoken(one).split()) or _HAD.search(one)]
            return had if len(had) == 1 else []
        stems = {word[:5] for word in self.what if len(word) > 3}
        known = sorted(names)
        found = [one for one in known if any(word[:5] in stems for word in spoken(one).split())]
        own = [one for one in known if _ITS_OWN.issuperset(spoken(one).split())]
        of_thing = len(own) == 1 and not stems.isdisjoint(word[:5] for word in thing)
        return found or (own if of_thing else [])

    def is_missed(self, value: str, now: str) -> bool:
        """Tell whether a date lies too near, or too far behind; where a time of day is not told, days count.

        >>> ahead = Window("", 48, ("exam",), ahead=True)
        >>> [ahead.is_missed(one, "2030-05-10 15:00") for one in ("2030-05-11", "2030-05-12")]
        [True, False]
        """
        moment, today, span = time_of(value), time_of(now), timedelta(hours=self.hours)
        if moment is None or today is None:
            return False
        if len(value) <= _DAY or len(now) <= _DAY:
            moment, today = (
                one.replace(hour=0, minute=0, second=0, microsecond=0) for one in (moment, today)
            )
        return moment - today < span if self.ahead else today - moment > span


_HAD = re.compile(r"(?:^|[._])(?:placed|ordered|purchas\w*|bought|deliver(?:y|ed)|received)(?:[._]|$)")
_DAY = len("2030-01-31")
_ITS_OWN = frozenset({"at", "created", "date", "day", "made", "on", "placed", "time", "timestamp"})
"""Words of fields that say when a thing was made, and no more."""


def windows(policy: PolicyText, tool: str, given: Collection[str] = ()) -> list[Window]:
    """Return how long before or after a date a policy allows a tool.

    Args:
        policy: The policy.
        tool: Its name.
        given: Dotted names of its arguments that are dates. Where these are named, windows of them alone are
            returned, also of sentences that name nothing else of the tool (`incidents are reported within`).

    >>> text = PolicyText("Items can be returned within 30 days of delivery. Exams must be moved at least "
    ...                   "48 hours before the exam date.")
    >>> [(one.hours, one.what, one.ahead) for one in windows(text, "return_item")]
    [(720.0, ('delivery',), False)]
    >>> [(one.hours, one.what, one.ahead) for one in windows(text, "reschedule_exam")]
    [(48.0, ('exam', 'date'), True)]
    >>> text = PolicyText("A loss has to be reported no later than two days after it happened. Repairs done "
    ...                   "more than 9 days ago are not claimed.")
    >>> [(one.hours, one.what) for one in windows(text, "open_claim", ["claim.loss.date"])]
    [(48.0, ('loss', 'happened'))]
    >>> [(one.hours, one.what, one.ahead) for one in windows(text, "claim_repair")]
    [(216.0, ('repairs', 'done'), False)]
    >>> text = PolicyText("Refunds are possible within 30 days. Refunds are processed within 5 days.")
    >>> [(one.hours, one.what) for one in windows(text, "issue_refund")]
    [(720.0, ())]
    >>> [one.hours for one in windows(PolicyText("No returns after 2 weeks."), "create_return")]
    [336.0]
    """
    found = []
    named = {word for one in given for word in spoken(one).split()} - _ITS_OWN - {*things(tool)}
    for sentence in policy.sentences:
        of_given = any(_has(sentence.words, word) for word in named if len(word) > 3)
        if not (_speaks_of(sentence, tool) or of_given) or _EXCEPTION.search(sentence.text):
            continue
        forbids = forbids_deed(sentence.text, tool)
        for pattern, ahead, forbidding in _WINDOWS:
            match = pattern.search(sentence.text)
            if match is None or forbids != forbidding:
                continue
            said = match["number"]
            number = _NUMBERS[said] if said in _NUMBERS else float(said)
            what = tuple(_WORD.findall(match["what"]))[:3]
            if what and what[0] in _IT:  # what it is stands before the first verb
                subject = _BEFORE_VERB.split(sentence.text[: match.start()])[0]
                what = (*_WORD.findall(subject)[-1:], *what[1:])
            found.append(Window(sentence.text, number * _HOURS[match["unit"]], what, ahead))
            break
    return found


_IT = frozenset({"it", "that", "they", "this"})
_BEFORE_VERB = re.compile(r"\b(?:are|can|has|have|is|may|must|needs?|should|shall|will)\b")


def dates_meant(sentence: Sentence, record: Iterable[tuple[str, Any]]) -> list[tuple[str, str]]:
    """Return the dates of a record that a sentence about the past speaks of.

    Args:
        sentence: One of `PolicyText.forbids_past`.
        record: Pairs of field, dotted, and value.

    Returns:
        Pairs of field and ISO date: those whose names it says, in full before in part; else the beginnings or
        ends by what it says of them.

    >>> record = {"contractEndDate": "2030-01-31", "suspensionStartDate": "2030-03-01", "name": "A"}
    >>> said = Sentence("do not lift a suspension if the contract end date is in the past.")
    >>> dates_meant(said, record.items())
    [('contractEndDate', '2030-01-31')]
    """
    dates = [
        (path, value[:10])
        for path, value in record
        if isinstance(value, str) and _DATED.match(value) and not _DONE.search(plain_name(path))
    ]
    words = {word[:5] for word in sentence.words}
    told = {path: [word[:5] in words for word in spoken(path).split() if word != "date"] for path, _ in dates}
    named = [pair for pair in dates if "date" in last_name(pair[0]) and any(told[pair[0]])]
    whole = [pair for pair in named if all(told[pair[0]])]
    if named:
        return whole or named
    begins = [(path, value) for path, value in dates if _BEGINS.search(plain_name(path))]
    if _BEGUN.search(sentence.text) and (begins or not _ENDED.search(sentence.text)):
        return begins
    ends = [(path, value) for path, value in dates if _ENDS.search(plain_name(path))]
    if _ENDED.search(sentence.text) and ends:
        return ends
    return dates if len(dates) == 1 else []


@lru_cache(maxsize=1 << 14)
def _speaks_of(sentence: Sentence, tool: str) -> bool:
    """Tell whether a sentence is about what a tool does: its verb, and its thing here or in the heading."""
    verb, about = verb_of(tool), things(tool)
    heading = _WORD.findall(sentence.heading)
    thing = not about or any(_has(sentence.words, one) or _has(heading, one) for one in about)
    if is_deed(tool, sentence.words):
        return thing or any(same_verb(verb, word) for word in heading)
    if (verb in _GENERIC or (verb in GIVING and _GETS.search(sentence.text))) and about:
        return all(_has(sentence.words, one) for one in about)
    return bool(about) and any(same_verb(verb, word) for word in heading) and _has(sentence.words, about[-1])


def _is_anothers(sentence: Sentence, tool: str, tools: Iterable[str]) -> bool:
    """Tell whether a sentence stands behind a label or a heading of a thing that only others act on."""
    label = _LABEL.match(sentence.text)
    for words in (_WORD.findall(one) for one in ((label.group(1) if label else ""), sentence.heading)):
        if any(_has(words, thing) for thing in things(tool)):
            return False
        others = (other for other in tools if same_verb(verb_of(other), verb_of(tool)))
        if any(_has(words, thing) for other in others for thing in things(other)):
            return True
    return False


def _only(text: str) -> str | None:
    """Return the condition under which alone something is allowed, None when no such thing is said."""
    if (those := _ONLY_THOSE.search(text)) is not None:
        return those.group(1)
    for clause in clauses_of(text):
        if (condition := _ONLY_IF.search(clause)) is not None:
            return condition.group(1)
        if re.search(r"\bonly\b", clause) and (condition := _IF_ONLY.search(clause)) is not None:
            return condition.group(1)
    return None


def _named(
    text: str, known: Mapping[str, Collection[str]], only: bool, tool: str
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield (field, values) that a condition names; nothing where it has other alternatives."""
    if only and (_NEGATED.search(text) or _EXCEPTION.search(text)):
        return
    quoted = tuple(one.strip() for one in _QUOTED.findall(text))
    alternatives = len(re.findall(r"\bor\b", text)) if only else 0
    found: dict[str, tuple[str, ...]] = {}
    for field, own in known.items():
        said = tuple(sorted(one for one in _said(text, own) if not _is_tools(one, tool)))
        if only and quoted and _is_named(field, text):
            said = tuple(sorted({*said, *quoted}))
        if said and len(said) > alternatives:
            found[field] = said
    # A value that several fields have belongs to the field that is named; without a name nobody can tell.
    named = {field: said for field, said in found.items() if _is_named(field, text)}
    if named:
        yield from named.items()
    elif len({said for said in found.values()}) == len(found):
        yield from found.items()


def _said(text: str, values: Iterable[str]) -> Iterator[str]:
    """Yield the values that a text says; `economy` is not said where only `basic economy` is.

    >>> list(_said("basic economy flights cannot be changed", ["economy", "basic economy"]))
    ['basic economy']
    """
    for value in sorted(values, key=lambda one: (-len(one), one)):
        if value not in text:
            continue
        text, count = re.subn(rf"(?<![\w-]){re.escape(value)}(?:s|es)?(?![\w-])", " ", text)
        if count and value not in ("yes", "no", "true", "false", "none"):
            yield value


def _is_named(field: str, text: str) -> bool:
    words = spoken(field.rpartition(".")[2]).split()
    return bool(words) and all(re.search(rf"\b{re.escape(word)}", text) for word in words)


def _is_tools(value: str, tool: str) -> bool:
    """Tell whether a value is only a word of what the tool does or acts on."""
    return all(word in spoken(tool).split() or same_verb(verb_of(tool), word) for word in value.split())


def _is_noun(name: str, noun: str) -> bool:
    stem = noun.rstrip("s")
    return (len(stem) > 2 or stem in _UNITS) and any(
        word.rstrip("s") == stem for word in spoken(name).split()
    )


def _has(words: Iterable[str], wanted: str) -> bool:
    return has_stem(words, wanted)
