"""Beyond which number a policy does not allow an argument of a tool. English only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from trace_assets.diagnosis.detectors.policy_subjects import EXCEPTION, NUMBERS, speaks_of
from trace_assets.diagnosis.detectors.policy_text import FORBIDS, PolicyText
from trace_assets.diagnosis.detectors.verbs import has_stem, is_deed, things
from trace_assets.diagnosis.detectors.wording import spoken

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
