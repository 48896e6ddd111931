"""Rules that put a failure down to the ground truth: a judge's pattern, turns written before, open words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Any

from trace_assets.diagnosis.attribution.case import Case, Ruling
from trace_assets.diagnosis.detectors.identity import names_a_thing, normal
from trace_assets.diagnosis.detectors.mutation import by_verb
from trace_assets.diagnosis.detectors.values import leaves
from trace_assets.diagnosis.detectors.verbs import spoken
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
    policy = policy_of(case)
    options = options_of(policy)
    given = f"{case.instruction}\n{said[0]}".lower()
    chosen: list[str] = []
    for row in rows:
        for name in row.changed:
            wanted, done = row.expected_arguments.get(name), row.arguments.get(name)
            if not is_option(wanted, options) or not is_option(done, options):
                return None
            if any(word in given for word in words_of_option(str(wanted))):
                return None
            if by_default(str(wanted), policy):
                return None
            chosen.append(f"{spoken(name)} {wanted!r}")
    evidence = tuple(sorted({row.message for row in rows if row.message is not None}))
    options_missed = " or ".join(dict.fromkeys(chosen))
    detail = f"nothing that the agent was given says {options_missed}, and nobody could be asked"
    return Ruling("ground_truth", "unsaid_option", evidence, detail)


def policy_of(case: Case) -> str:
    """Return what the agent was told to obey, as its task records it or its first message."""
    recorded = case.task.domain_policy if case.task else ""
    return recorded or "\n".join(one.content or "" for one in case.messages if one.role == "system")


def options_of(policy: str) -> set[str]:
    """Return what a policy sets in quotation marks: options to choose among."""
    return {normal(found) for found in _QUOTED.findall(policy)}


def words_of_option(option: str) -> list[str]:
    """Return the words of an option that are long enough to be looked for."""
    return _WORDS.findall(option.lower())


def is_option(value: Any, options: set[str]) -> bool:
    """Tell whether a value is one of a policy's options, and in words."""
    return isinstance(value, str) and normal(value) in options and bool(_WORDS.search(value))


def by_default(option: str, policy: str) -> bool:
    """Tell whether a sentence of the policy says that an option is the one to take where nothing is said."""
    return any(
        normal(option) in normal(one) and _DEFAULT.search(one) is not None for one in _SENTENCES.split(policy)
    )


_NUMBER = re.compile(r"(?<![\w.,-])[$€£]?\s?(\d+(?:[,\u202f ]\d{3})*(?:\.\d+)?)(?![\w-]|[.,]\d)")
_ANSWER = re.compile(
    r"\b(?:answer|output|response)s?\b.{0,20}\b(?:mismatch|differ|wrong|incorrect|not equal)", re.I
)
"""What a verdict says when it was about the answer."""
_FORM = re.compile(
    r"\b(?:integer|numeric|number only|only (?:the|a|one) (?:number|value|word|name)|format|in the form|json|"
    r"bare|single (?:word|number|value)|as an? (?:number|list)|"
    r"answer (?:should|must|has to) be (?![\"'\[(\d-]))",
    re.IGNORECASE,
)
"""Words of a task that says in what form to answer."""
_SHORT_WORDS = re.compile(r"[^\W\d_]{2,}")
_SENTENCE = 4
"""Words from which an answer is more than a value."""
_SHORT = 4
"""Signs from which a text can be looked for among words."""
_NAME = re.compile(r"[A-Za-z][\w.-]*")
"""What may be a tool in the name of a check on calls."""
_ONE_NUMBER = re.compile(r"\D{0,3}?(\d+(?:,\d{3})*(?:\.\d+)?)\D{0,3}\Z")


def literal_demand(case: Case) -> Ruling | None:
    """All that failed is that something was not told in the very signs that the judge looks for.

    Such as `960.0`, of which the agent said `$960`, or an answer in a sentence where the value alone is
    wanted and nobody said so.
    """
    failed = _failed(case)
    if not failed:
        return None
    found = _signs_missing(case, failed) or _answer_in_words(case, failed)
    if not found:
        return None
    values = ", ".join(found)
    detail = f"the judge looks for other signs than those in which the agent told {values}"
    return Ruling("ground_truth", "literal_demand", tuple(sorted(set(found.values()))), detail)


def _signs_missing(case: Case, failed: Sequence[Check]) -> dict[str, int]:
    """Return the numbers that the failed checks look for with the messages that tell them; all or none."""
    if any(one.kind != "communicate" for one in failed):
        return {}
    told = dict(_numbers_told(case, range(len(case.messages))))
    wanted = [_wanted_number(one) for one in failed]
    if any(number is None or number not in told for number in wanted):
        return {}
    return {f"{number:g}": told[number] for number in wanted if number is not None}


def _answer_in_words(case: Case, failed: Sequence[Check]) -> dict[str, int]:
    """Return the expected outputs, when the last answer has all of them among words; all or none.

    Where the task says in what form to answer, another form is the agent's doing.
    """
    outputs = [one for one in case.task.expected_outputs if one.strip()] if case.task else []
    last = case.transcript.last_of_agent()
    if not outputs or not case.messages or case.messages[last].role != "assistant":
        return {}
    if not all(one.kind in ("communicate", "judge") or _ANSWER.search(one.detail) for one in failed):
        return {}
    asked = "\n".join(one.content or "" for one in case.messages if one.role == "user")
    if _FORM.search(f"{case.instruction}\n{asked}"):
        return {}
    said = case.messages[last].content or ""
    words = normal(said)
    told = dict(_numbers_told(case, (last,)))
    for one in outputs:
        number = _ONE_NUMBER.match(one.strip())
        if number is not None and float(number[1].replace(",", "")) in told:
            continue
        if number is not None or len(one.strip()) < _SHORT or not _shows({normal(one)}, words, frozenset()):
            return {}
    return dict.fromkeys(outputs, last) if len(_SHORT_WORDS.findall(said)) >= _SENTENCE else {}


def another_look(case: Case) -> Ruling | None:
    """All that failed is that one look was not made, and another one showed the same object.

    A look changes nothing. Where the agent never saw the object, not looking was its own mistake.
    """
    failed = _failed(case)
    if not failed or any(one.kind != "action" for one in failed) or case.diffs:
        return None
    missed = [
        action
        for action in case.expected
        if action.name not in case.writes
        and not any(
            _named(action.arguments) <= _named(step.arguments)
            for step in case.transcript.calls(action.name, ok=True)
        )
    ]
    evidence: list[int] = []
    for action in missed:
        names = _named(action.arguments)
        seen = next(
            (
                step
                for step in case.transcript.steps
                if not step.by_user and not step.failed and step.tool not in case.writes
                if names and _shows(names, step.result, _named(step.arguments))
            ),
            None,
        )
        if seen is None:
            return None
        evidence.append(seen.index)
    if not missed:
        return None
    looks = ", ".join(sorted({action.name for action in missed}))
    detail = (
        f"the judge asks for {looks}; the agent saw the same object by another look, and changed all rightly"
    )
    return Ruling("ground_truth", "another_look", tuple(sorted(set(evidence))), detail)


def demanded_look(case: Case) -> Ruling | None:
    """All that failed are looks that the judge asks for by name, though it found right what they were for.

    What was told or changed has checks of its own, and these passed: the way there is not the task.
    """
    failed = _failed(case)
    gates = [one for one in case.trajectory.checks if one.gates and one.passed]
    if not failed or case.diffs or not any(one.kind in ("communicate", "judge", "state") for one in gates):
        return None
    tools = {tool for one in failed for tool in _NAME.findall(one.name) if by_verb(tool) is not None}
    if any(one.kind != "action" or tools.isdisjoint(_NAME.findall(one.name)) for one in failed):
        return None
    if any(by_verb(tool) for tool in tools):
        return None
    detail = f"the judge asks for {', '.join(sorted(tools))}; what was told and changed it found right"
    return Ruling("ground_truth", "demanded_look", (case.transcript.last_of_agent(),), detail)


def _failed(case: Case) -> list[Check]:
    """Return the checks that failed, where some ran and none is without a verdict."""
    gates = [one for one in case.trajectory.checks if one.gates]
    return (
        [one for one in gates if one.passed is False] if all(one.passed is not None for one in gates) else []
    )


def _named(arguments: object) -> frozenset[str]:
    """Return what names things among some arguments; a number of many digits does so too."""
    return frozenset(normal(value) for _, value in leaves(arguments) if names_a_thing(value))


def _shows(names: Set[str], result: str, objects: frozenset[str]) -> bool:
    """Tell whether a look was at some objects, or showed them."""
    text = normal(result)
    return names <= objects or all(
        re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None for name in names
    )


def _wanted_number(check: Check) -> float | None:
    """Return the number that a check looks for, None where it looks for words."""
    found = _ONE_NUMBER.match(check.detail.partition(" | ")[0].strip())
    return float(found[1].replace(",", "")) if found else None


def _numbers_told(case: Case, places: Iterable[int]) -> Iterator[tuple[float, int]]:
    """Yield every number that the agent told its user in some messages, with the message."""
    for place in places:
        message = case.messages[place]
        if message.role == "assistant" and message.content:
            for found in _NUMBER.finditer(message.content):
                yield float(re.sub(r"[,\u202f ]", "", found[1])), place
