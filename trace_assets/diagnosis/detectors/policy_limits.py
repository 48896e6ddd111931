"""What a policy forbids to give a tool, whatever a record says, and sums that it states as fixed.

Forbidden are numbers beyond a limit, values, kinds and words. English only.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from trace_assets.diagnosis.detectors.policy_lines import Sentence
from trace_assets.diagnosis.detectors.policy_subjects import (
    CONDITION,
    EXCEPTION,
    NUMBERS,
    WORD,
    forbids_deed,
    speaks_of,
    values_said,
)
from trace_assets.diagnosis.detectors.policy_text import FORBIDS, PolicyText
from trace_assets.diagnosis.detectors.verbs import has_stem, is_deed, spoken, things

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
_MONEY = frozenset({"eur", "euro", "euros", "usd", "dollar", "dollars", "gbp", "pounds", "chf", "yen"})
_SUMS = re.compile(r"(?:^|[._])(?:amount|price|sum|value|total|cost|payment|fee|refund|credit)(?:$|_)")
_SPANS = frozenset(
    {"day", "week", "month", "year", "booking", "order", "request", "call", "time", "transaction"}
)
"""What a limit may be counted by without another number that would have to be known."""
_CURRENCY = (
    r"(?:euros?|eur|cents?|dollars?|usd|bucks|pounds?|gbp|quid|chf|francs?|yen|jpy|kr|kronor|kroner|sek|"
    r"nok|dkk|zloty|pln|rupees?|inr|credits?|points?|pesos?|reais|real)\b"
)
_NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"
_FIGURE = re.compile(
    rf"(?P<sign>[$€£¥])\s?(?P<signed>{_NUMBER})"
    rf"|(?<![\w.,:/-])(?P<plain>{_NUMBER})\s?(?P<unit>%|per ?cent\b|[$€£¥]|{_CURRENCY})?(?![\w-]|[.,:/]\d)"
)
_COST = (
    r"(?:fees?|charges?|charged|surcharges?|supplements?|deposits?|costs?|penalt(?:y|ies)|prices?|premiums?|"
    r"extra|kept|keeps?|deduct\w*|withh(?:old|eld)|minus|plus|less|retain\w*|excess)"
)
_COSTS = re.compile(rf"\b{_COST}\b")
_COSTS_SO = re.compile(rf"\b{_COST}[\s:]+(?:(?:of|is|are|at|a|an|the|fixed|flat|another|by)\s+)*\Z")
_IS_COST = re.compile(rf"\s{_COST}\b")
_NO_SUM = re.compile(
    r"\s*(?:st|nd|rd|th|[ap]\.?m\b|o'clock|hours?|h\b|days?|nights?|weeks?|months?|years?|minutes?|mins?|"
    r"times?|people|persons?|guests?|items?|pieces?|units?|kg|kilos?|g\b|km|miles?|m\b|metres?|meters?|"
    r"litres?|liters?|digits?|letters?|characters?|of the|calls?|attempts?|seats?|bags?)"
)


_PART_OF = {"half": 0.5, "third": 1 / 3, "quarter": 0.25}
_PARTS = re.compile(
    r"\b(?:an? |one |the )?(half|third|quarter)"
    r"(?= (?:of )?(?:the |that |this |its |their |what )|\W*\Z|, |"
    r" (?:back|price|fare|fee|rate|sum|amount|total)\b)"
)
"""Shares in words; half an hour and the third floor are none."""


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
        speaks = speaks_of(sentence, tool)
        of_thing = bool(things(tool)) and all(has_stem(sentence.words, one) for one in things(tool))
        deed = is_deed(tool, sentence.words)
        if not (speaks or of_thing or deed) or EXCEPTION.search(sentence.text):
            continue
        for match in chain(_MOST.finditer(sentence.text), _MOST_BEHIND.finditer(sentence.text)):
            if _BEYOND.match(match.group(0)) and not FORBIDS.search(sentence.text):
                continue
            per = _PER.search(sentence.text[match.start() :])
            if per and not {per.group(1), per.group(1).rstrip("s")} & {*_SPANS, *things(tool)}:
                continue
            said = match["number"]
            number = NUMBERS[said] if said in NUMBERS else float(said.replace(",", ""))
            noun = (match["noun"] or "").split(" ")[0]
            money = bool(match["sign"]) or noun in _MONEY or noun == "€"
            of_it = noun in units and (speaks or of_thing)
            if noun.rstrip("s") in counted or of_it or (speaks and (money or len(noun) > 2)):
                found.append(Most(sentence.text, number, "" if money else noun))
    return found


def _is_noun(name: str, noun: str) -> bool:
    stem = noun.rstrip("s")
    return (len(stem) > 2 or stem in _UNITS) and any(
        word.rstrip("s") == stem for word in spoken(name).split()
    )


@dataclass(frozen=True)
class Figure:
    """A number that a policy states.

    Attributes:
        number: The sum; of a share the part of one (25 % is 0.25).
        share: Whether it is a share of something.
        shown: How the policy writes it.
    """

    number: float
    share: bool
    shown: str


def figures_in(text: str) -> list[Figure]:
    """Return the sums and shares that a sentence states; counts, times and dates are none.

    >>> [(one.number, one.share) for one in figures_in("we keep a fee of 18 euros, from 48 hours on 25%")]
    [(18.0, False), (0.25, True)]
    >>> [one.shown for one in figures_in("the price plus 6.50 for delivery; open 9 to 17, 3 items at most")]
    ['6.50']
    >>> [one.shown for one in figures_in("a late fee of 12 applies after 3 days; call 555-0100")]
    ['12']
    >>> [one.number for one in figures_in("they pay half of the price; half an hour; the third floor")]
    [0.5]
    """
    found: dict[tuple[float, bool], Figure] = {}
    for match in _PARTS.finditer(text):
        part = _PART_OF[match[1]]
        found.setdefault((part, True), Figure(part, True, match[0].strip()))
    for match in _FIGURE.finditer(text):
        said = match["signed"] or match["plain"]
        number, unit = float(said.replace(",", "")), match["unit"] or ""
        share = unit.startswith(("%", "per"))
        money = bool(match["sign"]) or (bool(unit) and not share)
        if not (share or money):
            if _NO_SUM.match(text, match.end()):
                continue
            beside = _COSTS_SO.search(text[: match.start()]) or _IS_COST.match(text, match.end())
            cents = re.search(r"\.\d\d\Z", said) is not None
            if not beside and not (cents and _COSTS.search(text)):
                continue
        if number > 0 and not (share and number >= 100):
            one = Figure(number / 100 if share else number, share, match[0].strip())
            found.setdefault((one.number, share), one)
    return list(found.values())


def stated(policy: PolicyText) -> list[tuple[Figure, Sentence]]:
    """Return every figure that a policy states, with the first sentence that does."""
    found: dict[tuple[float, bool], tuple[Figure, Sentence]] = {}
    for sentence in policy.sentences:
        for one in figures_in(sentence.text):
            found.setdefault((one.number, one.share), (one, sentence))
    return list(found.values())


BEFORE = 3
"""Sentences above one that may name what it speaks of as `this sum`."""


def with_those_before(policy: PolicyText) -> Iterator[tuple[Sentence, list[Sentence]]]:
    """Yield each sentence with those before it under the same heading, the nearest first."""
    sentences = policy.sentences
    for place, one in enumerate(sentences):
        above = sentences[max(0, place - BEFORE) : place][::-1]
        yield one, [other for other in above if other.heading == one.heading]


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

_IN_PLACE = re.compile(r"\b(?:one|ones|it|them|these|those)\b")
_LITERAL = re.compile(r"[`'\"‘“]([^`'\"’”]{2,40})[`'\"’”]")


def given_bans(policy: PolicyText, tool: str, given: Mapping[str, Collection[str]]) -> list[GivenBan]:
    """Return the values that a policy names, in quotes, as those that a tool must not be given.

    >>> text = PolicyText("Drafts go to `review`. Never send one to `all`.")
    >>> [(one.argument, one.values) for one in given_bans(text, "send_draft", {"list": ["all", "review"]})]
    [('list', ('all',))]
    """
    found = []
    for sentence, previous in policy.once(("forbidding", tool), lambda: _forbidding(policy, tool)):
        text = sentence.text
        touches = "/" in text and _TOUCHES.search(text)
        folders = [f"{one.rstrip('/')}/" for one in _FOLDER.findall(text)] if touches else []
        for argument, values in given.items() if folders else ():
            under = [one for one in values if is_among(one, folders)]
            if under and len(under) < len(set(values)) and all("/" in one for one in values):
                found.append(GivenBan(text, argument, tuple(folders)))
        if _IN_PLACE.search(text):
            sentence = Sentence(text, f"{sentence.heading} {previous}")
        if not speaks_of(sentence, tool):
            continue
        quoted = set(_LITERAL.findall(text))
        for argument, values in given.items():
            said = tuple(sorted(one for one in values if one.lower() in quoted))
            if said and len(said) < len(set(values)):
                found.append(GivenBan(text, argument, said))
    return found


def _forbidding(policy: PolicyText, tool: str) -> list[tuple[Sentence, str]]:
    """Return the sentences that forbid what a tool does, whatever the case, and the text before each."""
    above = ["", *(one.text for one in policy.sentences)]
    return [
        (one, previous)
        for one, previous in zip(policy.sentences, above, strict=False)
        if forbids_deed(one.text, tool) and not EXCEPTION.search(one.text) and not CONDITION.search(one.text)
    ]


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
        if not FORBIDS.search(text) or EXCEPTION.search(text) or CONDITION.search(text):
            continue
        if is_deed(tool, WORD.findall(text)):
            said = {spoken(one): one for one in known}
            found |= {said[one] for one in values_said(text, said)}
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
        if not (FORBIDS.search(text) or _NOT_DONE.search(text)) or EXCEPTION.search(text):
            continue
        if not _MARKED.search(text) or not speaks_of(sentence, tool):
            continue
        place = policy.text.lower().find(text)
        own = policy.text[place : place + len(text)] if place >= 0 else text
        words = [*_CAPITALS.findall(own), *_LITERAL.findall(own)]
        found += [Mark(text, word) for word in dict.fromkeys(words)]
    return found


_MARKED = re.compile(
    r"\b(?:says?|reads?|marked|labell?ed|tagged|flagged|contains?|shows?|bears?|starts? with)\b"
)
