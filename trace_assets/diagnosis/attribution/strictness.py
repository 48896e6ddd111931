"""Rules on a judge that takes one form of what is right for all of it: a spelling, or one look of several.

Each needs that nothing else failed: what was changed is as it should be.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set

from trace_assets.diagnosis.attribution.case import Case, Ruling
from trace_assets.diagnosis.detectors.identity import names_a_thing, normal
from trace_assets.diagnosis.detectors.mutation import by_verb
from trace_assets.diagnosis.detectors.values import leaves
from trace_assets.records import Check

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
_WORDS = re.compile(r"[^\W\d_]{2,}")
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
    return dict.fromkeys(outputs, last) if len(_WORDS.findall(said)) >= _SENTENCE else {}


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
