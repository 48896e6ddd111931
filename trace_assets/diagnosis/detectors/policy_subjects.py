"""Which sentences of a policy are about what a tool does, and which values they say: all its rules ask it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from trace_assets.diagnosis.detectors.policy_lines import Sentence
from trace_assets.diagnosis.detectors.policy_text import FORBIDS
from trace_assets.diagnosis.detectors.verbs import GIVING, has_stem, is_deed, same_verb, things, verb_of

EXCEPTION = re.compile(
    r"\b(unless|except|apart from|other than|instead of|even|including|regardless|without)\b"
)
WORD = re.compile(r"[a-z]+")
_LABEL = re.compile(r"([a-z]+(?: [a-z]+){1,2}): ")
"""What a line is about, written before it: `change flights: ...`."""
_GENERIC = frozenset({"make", "create", "add", "set", "place", "submit", "open", "do", "post", "put", "send"})
"""Verbs that say nothing of what is done: the thing does."""
_GETS = re.compile(r"\b(?:get|gets|receive|receives|entitled to|eligible for)\b")
"""What somebody does to whom something is given."""
NUMBERS = {
    word: float(number)
    for number, word in enumerate(
        ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"), 1
    )
}


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
CONDITION = re.compile(r"\b(?:if|when|while|until|before|after|once|who|whose|which|that|where)\b")


@lru_cache(maxsize=1 << 14)
def speaks_of(sentence: Sentence, tool: str) -> bool:
    """Tell whether a sentence is about what a tool does: its verb, and its thing here or in the heading."""
    verb, about = verb_of(tool), things(tool)
    heading = WORD.findall(sentence.heading)
    thing = not about or any(has_stem(sentence.words, one) or has_stem(heading, one) for one in about)
    if is_deed(tool, sentence.words):
        return thing or any(same_verb(verb, word) for word in heading)
    if (verb in _GENERIC or (verb in GIVING and _GETS.search(sentence.text))) and about:
        return all(has_stem(sentence.words, one) for one in about)
    return (
        bool(about) and any(same_verb(verb, word) for word in heading) and has_stem(sentence.words, about[-1])
    )


def is_anothers(sentence: Sentence, tool: str, tools: Iterable[str]) -> bool:
    """Tell whether a sentence stands behind a label or a heading of a thing that only others act on."""
    label = _LABEL.match(sentence.text)
    for words in (WORD.findall(one) for one in ((label.group(1) if label else ""), sentence.heading)):
        if any(has_stem(words, thing) for thing in things(tool)):
            return False
        others = (other for other in tools if same_verb(verb_of(other), verb_of(tool)))
        if any(has_stem(words, thing) for other in others for thing in things(other)):
            return True
    return False


def values_said(text: str, values: Iterable[str]) -> Iterator[str]:
    """Yield the values that a text says; `economy` is not said where only `basic economy` is.

    >>> list(values_said("basic economy flights cannot be changed", ["economy", "basic economy"]))
    ['basic economy']
    """
    for value in sorted(values, key=lambda one: (-len(one), one)):
        if value not in text:
            continue
        text, count = re.subn(rf"(?<![\w-]){re.escape(value)}(?:s|es)?(?![\w-])", " ", text)
        if count and value not in ("yes", "no", "true", "false", "none"):
            yield value
