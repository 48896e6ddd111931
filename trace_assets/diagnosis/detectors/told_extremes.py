"""What is the cheapest or the dearest of a list, as the agent tells it, against the list."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.protocol import (
    NOT_NEEDED,
    Finding,
    Mistake,
    Proposal,
    is_needed,
    lacking,
    present,
)
from trace_assets.diagnosis.detectors.told_counts import lists_in, same_noun
from trace_assets.diagnosis.detectors.transcript import Transcript

# English only: other languages give NA.
_LEAST = re.compile(
    r"\b(?:cheapest|least expensive|most affordable|lowest[- ](?:price|priced|cost|fare|fee))\b"
)
_MOST = re.compile(
    r"\b(?:most expensive|dearest|priciest|costliest|highest[- ](?:price|priced|cost|fare|fee))\b"
)
_LIMITS = re.compile(
    r"\b(?:next|second|under|below|within|less than|more than|up to|at most|at least|between|same|similar|"
    r"identical|compatible|closest)\b"
)
"""Words by which a user sets a condition that a list alone does not tell."""
_CONDITION = re.compile(
    _LIMITS.pattern + r"|\b(?:exact(?:ly)?|except|budget|combined|total|altogether|sum)\b"
)
"""Such words, and those of other sums, in what the agent says."""
_ENTRY = re.compile(r"\A\s*(?:[-*•]|\d+[.)])")
_FIGURE = re.compile(r"(?<![\w.,])(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d{1,2})?(?![\w%]|[.,]\d)")
_LINE = re.compile(r"\n|(?<=[.!?])\s")
_PRICE = re.compile(r"price|cost|fare|fee|rate|amount|charge")
_WORD = re.compile(r"[a-z][a-z-]{2,}")
_SMALLEST = 3
_MOST_WISHES = 6
"""Wishes of the user that are tried together."""


class WrongExtreme:
    """The agent calls something the cheapest or the dearest, and the list that it looked at has another.

    Of what the list says is not available nothing counts. Where the user named values that some entries have
    and others not, the figure may be that of the entries with these. Relevant when a line has one
    figure, which a list with prices has as well, and the line or the sentence names the list. No arguments.
    """

    name = "wrong_extreme"
    norm = 0.7
    mistake: Mistake = "wrong_statement"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose the one instance where some run tells an extreme."""
        if not is_needed(self, corpus):
            return []
        return [
            Proposal(
                args={},
                name="Compare all available entries before calling one the cheapest or the most expensive",
                description=(
                    "Before telling the user which is the cheapest or the most expensive, compare the "
                    "prices of all entries of the result that are available and meet what the user asked for."
                ),
            )
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        shown: list[int] = []
        for index, message in enumerate(transcript.messages):
            if message.role != "assistant" or not message.content:
                continue
            asked = [
                text
                for n, text in enumerate(transcript.lowered[:index])
                if transcript.messages[n].role == "user"
            ]
            if asked and _LIMITS.search(asked[-1]):
                continue
            wishes = "\n".join(asked)
            for words, line, figure, least in _told(transcript.lowered[index]):
                judged = _judged(transcript, index, f"{words}\n{line}", f"{wishes}\n{words}", figure, least)
                if judged is None:
                    continue
                at, best = judged
                if best != figure:
                    return lacking(f"{figure:g} was called so, and the result has {best:g}", at, index)
                shown += [at, index]
        return present("it is the extreme of the list", *shown) if shown else NOT_NEEDED


def _told(text: str) -> Iterator[tuple[str, str, float, bool]]:
    r"""Yield the figures that a message calls the least or the most: sentence, line, figure, whether least.

    >>> list(_told("the cheapest lamp is $12.50. it is red.")), list(_told("the lamp is $12.50."))
    ([('the cheapest lamp is $12.50.', 'the cheapest lamp is $12.50.', 12.5, True)], [])
    >>> [one[1:3] for one in _told("the most expensive kinds:\n- lamp: $9.\n- mat: $7 or $8.")]
    [('- lamp: $9.', 9.0)]
    """
    sentence, least = "", False
    for line in _LINE.split(text):
        low, high = _LEAST.search(line), _MOST.search(line)
        if (low is None) != (high is None):
            sentence, least = line, low is not None
        elif low is not None or not _ENTRY.match(line):
            continue
        if not sentence or _CONDITION.search(line) or _CONDITION.search(sentence):
            continue
        figures = _FIGURE.findall(_ENTRY.sub("", line))
        if len(figures) == 1 and (line == sentence or _ENTRY.match(line)):
            yield sentence, line, float(figures[0].replace(",", "")), least


def _judged(
    transcript: Transcript, before: int, names: str, wishes: str, figure: float, least: bool
) -> tuple[int, float] | None:
    """Return where the list was shown and its extreme: the figure itself where it may be so.

    None where no list, or several, are meant, or where a wish cannot be held against it.
    """
    said = set(_WORD.findall(names))
    found = [
        (step.end, priced)
        for step in transcript.steps
        if step.end < before and not step.failed
        for called, entries in lists_in(step.result)
        if len(entries) >= _SMALLEST and any(same_noun(word, name) for word in said for name in called)
        for priced in _priced(entries)
        if figure in {price for price, _ in priced}
    ]
    if len({tuple(sorted(price for price, _ in priced)) for _, priced in found}) != 1:
        return None
    at, priced = found[-1]
    extreme = min if least else max
    best = extreme(price for price, _ in priced)
    wanted = _wished(priced, wishes)
    if best == figure:
        return at, figure
    if wanted:
        sure = any(
            extreme((price for price, own in priced if set(some) <= own), default=None) == figure
            for number in range(1, min(len(wanted), _MOST_WISHES) + 1)
            for some in combinations(wanted[:_MOST_WISHES], number)
        )
        return (at, figure) if sure else None
    return at, best


def _priced(entries: Sequence[Any]) -> Iterator[list[tuple[float, frozenset[tuple[str, str]]]]]:
    """Yield by field of prices the available entries: price, and what else is said of each."""
    records = [one for one in entries if isinstance(one, dict)]
    if not records or len(records) != len(entries):
        return
    flags = {key for one in records for key, value in one.items() if isinstance(value, bool)}
    free = (
        [one for one in records if all(one.get(flag) is True for flag in flags)]
        if len(flags) == 1
        else records
    )
    if len(flags) > 1:
        return
    for field in {key for one in records for key in one if _PRICE.search(str(key).lower())}:
        priced = [
            (float(one[field]), frozenset(_values(one)))
            for one in free
            if isinstance(one.get(field), int | float) and not isinstance(one[field], bool)
        ]
        if len(priced) == len(free) > 1:
            yield priced


def _values(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the texts of a record with the names of their fields, those of records in it too."""
    for key, value in record.items():
        if isinstance(value, str):
            yield str(key).lower(), value.lower()
        elif isinstance(value, dict):
            yield from _values(value)


def _wished(priced: Sequence[tuple[float, frozenset[tuple[str, str]]]], text: str) -> list[tuple[str, str]]:
    """Return what some entries have and others not, and a text speaks of; short values with their field."""
    every = {pair for _, own in priced for pair in own}
    differing = {pair for pair in every if any(pair not in own for _, own in priced)}
    return sorted(
        (field, value)
        for field, value in differing
        if re.search(
            rf"(?<![\w-]){re.escape(value if len(value) > 2 else f'{field} {value}')}(?![\w-])", text
        )
    )
