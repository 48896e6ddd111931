"""Sums and shares of sums that a policy states as fixed numbers: a fee, a surcharge, a percentage."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from trace_assets.diagnosis.detectors.policy_lines import Sentence
from trace_assets.diagnosis.detectors.policy_text import PolicyText

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
