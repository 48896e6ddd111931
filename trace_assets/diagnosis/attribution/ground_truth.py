"""Rules that put a failure down to the ground truth: a judge's pattern, turns written before, open words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from trace_assets.diagnosis.attribution.case import Case, Ruling
from trace_assets.diagnosis.detectors.identity import normal
from trace_assets.diagnosis.detectors.values import leaves
from trace_assets.diagnosis.detectors.wording import spoken
from trace_assets.records import Check

_PATTERN = re.compile(r"\(\?[isx=:!]|\\[bsdw]|\.[*+]|\.\{\d")
"""Signs of a regular expression: a value that has to be told holds none of them."""
_DEEP = 40
"""Groups in each other; a pattern with more of them is not read."""
_LITERAL = 3
"""Letters in a row from which a pattern asks for a word."""
_OPTIONAL = re.compile(r"[*?]|\{0?,")
_QUANTIFIER = re.compile(r"(?:[*+?]|\{\d*,?\d*\})[?+]?")
_OPENS = re.compile(r"\((?:\?(?:P?<(?![=!])[^>]*>|[a-z-]*:|[=>]|[a-z]+(?=\))))?", re.I)
_NEGATED = re.compile(r"\(\?(?:!|<!)")


def other_order(case: Case) -> Ruling | None:
    """All that failed are patterns over the last answer, which holds every word that they ask for.

    Words in another order or farther apart than the pattern has them, or beside one that it rules out: what
    is said may be the same, and a pattern cannot tell. Where a word is not said, the agent left it out.
    """
    gates = [one for one in case.trajectory.checks if one.gates]
    failed = [one for one in gates if one.passed is not True]
    told = case.transcript.last_of_agent()
    if not failed or any(one.passed is None for one in failed) or len(failed) == len(gates):
        return None
    if not case.messages or case.messages[told].role != "assistant":
        return None
    text = (case.messages[told].content or "").casefold()
    for one in failed:
        patterns = list(_patterns(one)) if one.kind == "communicate" else []
        if not patterns or not all(holds_words(pattern, text) for pattern in patterns):
            return None
    detail = "every word that the judge's pattern asks for stands in the answer, in another order or place"
    return Ruling("ground_truth", "other_order", (told,), detail)


def _patterns(check: Check) -> Iterator[str]:
    """Yield the regular expressions that a check's text holds, as JSON or as they are."""
    try:
        values = [value for _, value in leaves(json.loads(check.detail))]
        held = [one for one in values if isinstance(one, str) and _PATTERN.search(one)]
    except ValueError:
        held = [check.detail] if _PATTERN.search(check.detail) else []
    yield from held


def holds_words(pattern: str, text: str) -> bool:
    """Tell whether a text has the words of a pattern, in any order: of alternatives those of one.

    What the pattern excludes is not looked at. A pattern that asks for no word, or that cannot be read, holds
    nothing that could be told.

    >>> holds_words(r"(?=.*open(?:ed|s)?)(?=.*(?:monday|tuesday)).*", "on tuesday it opens")
    True
    >>> holds_words(r"(?=.*open)(?=.*(?:monday|tuesday)).*", "it opens")
    False
    """
    reader = _Words(pattern, text)
    try:
        held = reader.alternatives(0)
    except RecursionError:
        return False
    return held and reader.place >= len(pattern) and reader.asked > 0


class _Words:
    """Reads a pattern from left to right and looks for its words."""

    def __init__(self, pattern: str, text: str) -> None:
        self._pattern, self._text = pattern, text
        self.place = self.asked = 0

    def alternatives(self, depth: int) -> bool:
        """Return whether one of the alternatives up to the group's end is held."""
        if depth > _DEEP:
            raise RecursionError
        held = self._sequence(depth)
        while self._pattern[self.place : self.place + 1] == "|":
            self.place += 1
            held = self._sequence(depth) or held
        return held

    def _sequence(self, depth: int) -> bool:
        held, word = True, ""
        while self.place < len(self._pattern) and self._pattern[self.place] not in "|)":
            sign, start = self._pattern[self.place], self.place
            part = True
            if sign == "(":
                held, word = self._look(word) and held, ""
                negated = _NEGATED.match(self._pattern, start) is not None
                opens = _NEGATED.match(self._pattern, start) or _OPENS.match(self._pattern, start)
                self.place = opens.end() if opens else start + 1
                part = self.alternatives(depth + 1) or negated
                self.place += 1
            elif sign == "[":
                closed = self._pattern.find("]", start + 2)
                self.place = closed + 1 if closed >= 0 else len(self._pattern)
                held, word = self._look(word) and held, ""
            elif sign == "\\":
                escaped = self._pattern[start + 1 : start + 2]
                self.place += 2
                if escaped.isalnum():
                    held, word = self._look(word) and held, ""
            else:
                self.place += 1
                if sign.isalnum():
                    word += sign
                else:
                    held, word = self._look(word) and held, ""
            quantifier = _QUANTIFIER.match(self._pattern, self.place)
            if quantifier:
                self.place = quantifier.end()
                optional = _OPTIONAL.match(quantifier[0]) is not None
                word, part = word[:-1] if optional else word, part or optional
                held, word = self._look(word) and held, ""
            held = held and part
        return self._look(word) and held

    def _look(self, word: str) -> bool:
        if len(word) < _LITERAL:
            return True
        self.asked += 1
        return word.casefold() in self._text


REPEATED = 0.5
"""Share of the words of an answer that stand before it, from which it repeats what was written for it."""
_WORD = re.compile(r"[^\W_]{2,}")


def written_before(case: Case) -> Ruling | None:
    """The agent gave again what the turns hold that were written for it, and nothing else was its own.

    Such turns are known by results that no call asked for. What is wrong in them is not the agent's doing: it
    made no call, and most words of its answer stand there already.
    """
    asked = {call.id for message in case.messages for call in message.tool_calls}
    written = [
        place
        for place, message in enumerate(case.messages)
        if message.role == "tool" and message.tool_call_id not in asked
    ]
    last_asked = max((place for place, one in enumerate(case.messages) if one.role == "user"), default=-1)
    if not written or asked or last_asked < written[-1]:
        return None
    own = [place for place in range(last_asked + 1, len(case.messages)) if case.messages[place].content]
    answer = _words(*(case.messages[place].content for place in own))
    held = _words(*(one.content for one in case.messages[: last_asked + 1]))
    if not answer or len(answer & held) < REPEATED * len(answer):
        return None
    detail = "the answer repeats turns that were written beforehand, with results that no call asked for"
    first = max(written[0] - 1, 0)  # the turn that the result was written for
    return Ruling("ground_truth", "written_before", (first,), detail)


def _words(*texts: str | None) -> set[str]:
    return {word for text in texts for word in _WORD.findall((text or "").casefold())}


_QUOTED = re.compile(r"[\"'“‘`*]{1,2}([\w][\w -]{2,40}?)[\"'”’`*]{1,2}")
_DEFAULT = re.compile(
    r"\b(?:default|otherwise|unless|if (?:no|none|nothing|not)|in doubt|assume)\b", re.IGNORECASE
)
"""Words of a sentence that says which option to take where nothing is said."""
_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n+")
_WORDS = re.compile(r"[^\W\d_]{4,}")


def unsaid_option(case: Case) -> Ruling | None:
    """All that differs is one of the policy's options, in a run without a talk: nothing says which to take.

    Such as the reason for cancelling, of two that the policy names, where the order gives none. Where the
    policy says which to take by default, that was to be taken.
    """
    rows = case.diffs or []
    said = [one.content or "" for one in case.messages if one.role == "user" and one.requestor != "user"]
    if not rows or len(said) != 1 or any(row.kind != "altered" or row.message is None for row in rows):
        return None
    policy = _policy(case)
    options = {normal(found) for found in _QUOTED.findall(policy)}
    given = f"{case.instruction}\n{said[0]}".lower()
    chosen: list[str] = []
    for row in rows:
        for name in row.changed:
            wanted, done = row.expected_arguments.get(name), row.arguments.get(name)
            if not _is_option(wanted, options) or not _is_option(done, options):
                return None
            if any(word in given for word in _WORDS.findall(str(wanted).lower())):
                return None
            if _by_default(str(wanted), policy):
                return None
            chosen.append(f"{spoken(name)} {wanted!r}")
    evidence = tuple(sorted({row.message for row in rows if row.message is not None}))
    options_missed = " or ".join(dict.fromkeys(chosen))
    detail = f"nothing that the agent was given says {options_missed}, and nobody could be asked"
    return Ruling("ground_truth", "unsaid_option", evidence, detail)


def _policy(case: Case) -> str:
    recorded = case.task.domain_policy if case.task else ""
    return recorded or "\n".join(one.content or "" for one in case.messages if one.role == "system")


def _is_option(value: Any, options: set[str]) -> bool:
    return isinstance(value, str) and normal(value) in options and bool(_WORDS.search(value))


def _by_default(option: str, policy: str) -> bool:
    """Tell whether a sentence of the policy says that an option is the one to take where nothing is said."""
    return any(
        normal(option) in normal(one) and _DEFAULT.search(one) is not None for one in _SENTENCES.split(policy)
    )
