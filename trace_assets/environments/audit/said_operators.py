"""Operators for what the capability says outright: steps in order, a yes to wait for, a sum to name.

Each is harmful where the capability's own words are about it, and is left out elsewhere.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

from trace_assets.environments.audit.added_changes import changes_in
from trace_assets.environments.audit.check import Subject
from trace_assets.environments.audit.scripted_rollouts import Action, Probe, say

_ORDER = re.compile(
    r"\bin (?:the |their |its |this |that |a )?(?:right |same |given |fixed )?order\b(?! to\b)"
    r"|\bstep by step\b|\bone after (?:the other|another)\b|\bin sequence\b",
    re.IGNORECASE,
)
_YES = re.compile(
    r"\b(?:wait\w*|ask\w*|get\w*|obtain\w*|need\w*|with) (?:\w+ ){0,4}?"
    r"(?:yes|consent|permission|approval|confirmation)\b"
    r"|\bbefore (?:\w+ ){0,3}(?:agrees?|confirms?|consents?)\b",
    re.IGNORECASE,
)
_FIGURE = re.compile(
    r"\b(?:nam(?:e|es|ing)|tell(?:s|ing)?|say(?:s|ing)?|stat(?:e|es|ing)|quot(?:e|es|ing)|mention(?:s|ing)?)\b[^.;]*"
    r"\b(?:sum|price|amount|cost|fee|total|figure)s?\b",
    re.IGNORECASE,
)
_NO = re.compile(r"\b(?:no|not|nor|never|neither|nope)\b|n't\b", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.,-])\d+(?![\w-]|[.,:]\d)")


def _says(subject: Subject, what: re.Pattern[str]) -> bool:
    spec = subject.purpose.spec if subject.purpose else None
    return bool(spec and what.search(f"{spec.name}. {spec.description}"))


def says_order(subject: Subject) -> bool:
    """Whether the capability is to keep an order."""
    return _says(subject, _ORDER)


def says_yes(subject: Subject) -> bool:
    """Whether the capability is to wait for somebody's yes."""
    return _says(subject, _YES)


def says_figure(subject: Subject) -> bool:
    """Whether the capability is to name a sum."""
    return _says(subject, _FIGURE)


def other_order(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Makes the last change before the first one, which another tool makes."""
    script = probe.oracle(seed)
    changes = changes_in(probe, script)
    if len(changes) < 2 or any(len(script[i]["tool_calls"]) > 1 for i, _ in changes):
        return
    (first, _), (last, _) = changes[0], changes[-1]
    if script[first]["tool_calls"][0]["name"] != script[last]["tool_calls"][0]["name"]:
        yield [*script[:first], script[last], *script[first:last], *script[last + 1 :]]


def unasked(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Makes a change without the words that come before it, or without the last where a no came before."""
    script, best = probe.oracle(seed), probe.best(seed)
    changes = changes_in(probe, script)
    words = _words_before(script, changes[0][0]) if changes else []
    refused = [_NO.search(" ".join(_heard(best.answers[n]))) for n in words[:-1]]
    for left in (words, words[-1:]) if refused and all(refused) else (words,):
        if left:
            yield [action for place, action in enumerate(script) if place not in left]


def _heard(answer: dict[str, Any]) -> list[str]:
    return [str(m.get("content") or "") for m in answer["messages"] if m["role"] == "user"]


def other_figure(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Names another sum, where the words before the last ones have one number that nothing shows."""
    script, best = probe.oracle(seed), probe.best(seed)
    told = [*best.first, *(m for answer in best.answers for m in answer["messages"])]
    shown = set(re.findall(r"\d+", " ".join(str(m.get("content") or "") for m in told)))
    for place in _words_before(script, len(script) - 1):
        found = [one for one in _NUMBER.finditer(script[place]["content"]) if one[0] not in shown]
        if len(found) == 1:
            start, end = found[0].span()
            text = script[place]["content"]
            other = f"{text[:start]}{int(found[0][0]) + rng.choice((1, 2, 3))}{text[end:]}"
            yield [*script[:place], say(other), *script[place + 1 :]]


def _words_before(script: list[Action], end: int) -> list[int]:
    return [n for n, one in enumerate(script[:end]) if one.get("content") and not one.get("tool_calls")]
