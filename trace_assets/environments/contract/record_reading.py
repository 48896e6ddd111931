"""Reads a part of a policy's condition as tests of a record's fields: `its seal is broken`, `under 6`.

English only. What is not understood is left open.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from trace_assets.diagnosis.detectors.values import time_of
from trace_assets.diagnosis.detectors.verbs import same_verb, spoken
from trace_assets.environments.contract.policy_cases import (
    NO,
    SECONDS,
    YES,
    Part,
    Row,
    Test,
    flag,
    name_words,
)
from trace_assets.environments.contract.policy_words import (
    DENIES,
    PARTICLES,
    Bound,
    bounds_in,
    is_alike,
    known_words,
    singular,
)

MOST_STATES = 12
_WORD = re.compile(r"[a-z]+")
_PAST = re.compile(r"\b(?:ended|expired|over|passed|elapsed|run out|lies behind|in the past)\b")
_AHEAD = re.compile(r"\b(?:runs|running|lies ahead|not yet|still|in the future)\b")
_TODAY_IN = re.compile(r"\btoday included\b|\bthat day included\b")
_NO_MORE = PARTICLES | {singular(word) for word in PARTICLES}
_SUBJECT = re.compile(
    r"\A[\W_]*(?:its|the|an?|his|her|their|this|that)((?: [a-z]+){1,2}?) "
    r"(?:is|are|was|were|has|have|had|may|can|will|does|did|still|holds?|asks?|wants?|lives?|comes?)\b"
)
"""Whom or what a clause is about."""
_ALIKE: Mapping[str, frozenset[str]] = {
    "older": frozenset({"age", "years"}),
    "younger": frozenset({"age", "years"}),
    "aged": frozenset({"age", "years"}),
    "heavier": frozenset({"weight", "mass", "tons", "kilograms", "kg"}),
    "lighter": frozenset({"weight", "mass", "tons", "kilograms", "kg"}),
    "longer": frozenset({"length", "duration", "minutes", "metres"}),
    "warmer": frozenset({"temperature", "degrees", "celsius"}),
    "colder": frozenset({"temperature", "degrees", "celsius"}),
    "worth": frozenset({"value", "price"}),
    "costs": frozenset({"price", "cost"}),
}
"""Words of comparisons that stand for a field's name."""


@dataclass
class Records:
    """What records show, and what of it a text may speak of.

    Args:
        rows: Records, by dotted path with the tool before it.
        now: What the policy calls now.
        about: Words of the thing that all records are of, and of the tools: they ask for nothing.
        usual: Words that the whole text is about: nor do they.
    """

    rows: Sequence[Row]
    now: datetime | None = None
    about: frozenset[str] = frozenset()
    usual: frozenset[str] = frozenset()
    words: dict[str, frozenset[str]] = field(init=False)

    def __post_init__(self) -> None:
        self.words = {path: name_words(path) for path in self._held}

    @cached_property
    def _told(self) -> frozenset[str]:
        """Words of sentences in the answers: what they say of a thing is no further condition."""
        return frozenset(path.partition("~")[2] for path in self._held if "~" in path)

    @cached_property
    def _held(self) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = defaultdict(list)
        for row in self.rows:
            for path, value in row.items():
                found[path].append(value)
        return found

    @cached_property
    def numbers(self) -> list[str]:
        """Paths of figures."""
        return [
            p
            for p, own in self._held.items()
            if any(_is_number(v) for v in own) and not any(isinstance(v, list) for v in own)
        ]

    @cached_property
    def dates(self) -> list[str]:
        """Paths of dates."""
        return [p for p, own in self._held.items() if sum(time_of(v) is not None for v in own) > len(own) / 2]

    @cached_property
    def states(self) -> dict[str, set[str]]:
        """Paths of fields with a few values, and these."""
        found = {}
        for path, own in self._held.items():
            values = {v.lower() for v in own if isinstance(v, str)}
            if 1 < len(values) <= MOST_STATES and not any(any(c.isdigit() for c in v) for v in values):
                found[path] = values
        return found

    @cached_property
    def flags(self) -> list[str]:
        """Paths of fields that say yes or no."""
        return [
            path
            for path, own in self._held.items()
            if path not in self.dates
            and ("~" not in path or None not in own)
            and all(flag(v) is not None for v in own)
            and {flag(v) for v in own} == {True, False}
        ]

    def read(self, text: str) -> Part:
        """Return a part of a condition as tests."""
        lower = text.lower()
        used: set[str] = set()
        tests: list[Test] = []
        rest = lower
        bounds = bounds_in(lower)
        for bound in bounds:
            others = [one for one in bounds if one is not bound]
            path, spent = self._bounded(_without(lower, others), bound)
            if path:
                tests.append(Test(path, bound=bound, now=self.now, negated=_denied(lower[: bound.start])))
                used |= spent
                rest = rest.replace(lower[bound.start : bound.end], " ")
        words = [singular(word) for word in _WORD.findall(rest)]
        for found in (self._state(words), self._date(rest, words), self._flag(words)):
            if found is not None and not any(test.path == found[0].path for test in tests):
                test = found[0]
                tests.append(replace(test, negated=test.past is None and _is_denied(words, found[1])))
                used |= found[1]
                break
        if (subject := _SUBJECT.match(lower)) is not None:
            used |= known_words([subject[1]])
        over = {
            word
            for word in words
            if not self._is_empty(word) and not any(is_alike(word, one) for one in used)
        }
        digits = re.search(r"\d", rest) is not None
        return Part(tuple(tests), not over and not digits, text.strip())

    def _is_empty(self, word: str) -> bool:
        """Tell whether a word asks for nothing: a particle, or what tools and their things are called."""
        return (
            word in _NO_MORE
            or word in self.usual
            or any(is_alike(word, one) or same_verb(one, word) for one in self.about)
        )

    def asks_for_nothing(self, text: str) -> bool:
        """Tell whether a text has no words but such."""
        return not re.search(r"\d", text) and all(
            self._is_empty(singular(word)) for word in _WORD.findall(text.lower())
        )

    def _bounded(self, text: str, bound: Bound) -> tuple[str, set[str]]:
        words = {singular(word) for word in _WORD.findall(text)}
        meant = {
            alike for word in _WORD.findall(bound.words) for alike in map(singular, _ALIKE.get(word, ()))
        }
        meant |= {alike for word in _WORD.findall(text) if word == "worth" for alike in _ALIKE[word]}
        scored: list[tuple[float, str, set[str]]] = []
        for path in {*self.numbers, *self.dates}:
            own = self.words[path]
            met = {one for one in own if any(is_alike(word, one) for word in words)} | (own & meant)
            if path in self.dates and (bound.unit not in SECONDS or not met):
                continue
            if not met:
                continue
            by_unit = any(is_alike(bound.unit, one) for one in own) if bound.unit else False
            scored.append((len(met) + by_unit - 0.1 * len(own - met), path, met))
        scored.sort(key=lambda one: -one[0])
        if not scored or (len(scored) > 1 and scored[0][0] == scored[1][0]):
            return "", set()
        return scored[0][1], scored[0][2] | {bound.unit} | {"worth"}

    def _state(self, words: Sequence[str]) -> tuple[Test, set[str]] | None:
        found: list[tuple[int, str, str, set[str]]] = []
        for path, values in self.states.items():
            for value in values - YES - NO:
                own = [singular(w) for w in _WORD.findall(spoken(value))]
                if own and all(any(_same(w, one) for w in words) for one in own):
                    met = {one for one in self.words[path] if any(is_alike(w, one) for w in words)}
                    if len(own[0]) < 3 and not met:
                        continue
                    found.append((2 * len(own) + len(met), path, value, {*own, *self.words[path]}))
        found.sort(key=lambda one: -one[0])
        if not found or (len(found) > 1 and found[0][0] == found[1][0]):
            return None
        _, path, value, spent = found[0]
        return Test(path, value=value), spent

    def _date(self, text: str, words: Sequence[str]) -> tuple[Test, set[str]] | None:
        past = True if _PAST.search(text) else False if _AHEAD.search(text) else None
        if past is None or self.now is None:
            return None
        named = [
            (path, met)
            for path in self.dates
            if (met := {one for one in self._with_parents(path) if any(is_alike(w, one) for w in words)})
        ]
        if len(named) != 1:
            return None
        today = True if _TODAY_IN.search(text) else None
        spent = named[0][1] | {"ended", "expired", "passed", "elapsed", "run", "running", "end", "included"}
        return Test(named[0][0], past=past, now=self.now, today=today), spent

    def _with_parents(self, path: str) -> set[str]:
        return {singular(w) for w in _WORD.findall(spoken(path.partition(".")[2])) if w not in PARTICLES}

    def _flag(self, words: Sequence[str]) -> tuple[Test, set[str]] | None:
        found: list[tuple[float, str, set[str]]] = []
        for path in self.flags:
            own = self.words[path] - self.about
            met = {one for one in own if any(is_alike(w, one) for w in words)}
            if own and len(met) >= 2 / 3 * len(own):
                found.append((len(met), path, met))
        found.sort(key=lambda one: -one[0])
        if not found or (len(found) > 1 and found[0][0] == found[1][0]):
            return None
        spent = found[0][2] | (self._told if "~" in found[0][1] else set())
        return Test(found[0][1]), spent


_DENIALS = frozenset(
    {"lack", "lacking", "lacks", "neither", "never", "no", "nobody", "none", "not", "nothing", "without"}
)
_REACH = 3
"""Words from a denial to what it denies."""


def _is_denied(words: Sequence[str], meant: Iterable[str]) -> bool:
    """Tell whether what is meant is denied by a word that stands shortly before it, or within it.

    >>> _is_denied("the room is not taken".split(), ["room", "taken"])
    True
    >>> _is_denied("a server on hold is not retired".split(), ["hold"])
    False
    """
    wanted = set(meant)
    places = [n for n, word in enumerate(words) if any(is_alike(word, one) for one in wanted)]
    if not places:
        return False
    if "without" in words:  # nobody without a ticket
        words = ["" if word in ("nobody", "no") else word for word in words]
    first, last = places[0] - _REACH, places[-1]
    return sum(word in _DENIALS and first <= n <= last for n, word in enumerate(words)) % 2 == 1


def _without(text: str, bounds: Sequence[Bound]) -> str:
    """Return a text with some of its bounds blanked."""
    for one in bounds:
        text = text[: one.start] + " " * (one.end - one.start) + text[one.end :]
    return text


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _denied(before: str) -> bool:
    """Tell whether a bound is denied by what stands before it (`have caused no damage in the past year`)."""
    return len(DENIES.findall(" ".join(before.split()[-3:]))) == 1


def _same(word: str, value: str) -> bool:
    return word == value or (len(value) > 3 and is_alike(word, value))
