"""Rules on a judge that takes one form of what is right for all of it: a spelling, or one look of several.

Each needs that nothing else failed: what was changed is as it should be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trace_assets.diagnosis.attribution.case import Case, Ruling
from trace_assets.diagnosis.detectors.identity import looks_like_id, normal
from trace_assets.diagnosis.detectors.values import leaves
from trace_assets.records import Check

_NUMBER = re.compile(r"(?<![\w.,-])[$€£]?\s?(\d+(?:[,\u202f ]\d{3})*(?:\.\d+)?)(?![\w-]|[.,]\d)")
_DIGITS = re.compile(r"\d{5,}\Z")
_ONE_NUMBER = re.compile(r"\D{0,3}?(\d+(?:,\d{3})*(?:\.\d+)?)\D{0,3}\Z")


def literal_demand(case: Case) -> Ruling | None:
    """All that failed is that a number was not told in the very signs that the judge looks for: it was told.

    Such as `960.0`, of which the agent said `$960`.
    """
    failed = _failed(case)
    if not failed or any(one.kind != "communicate" for one in failed):
        return None
    told = dict(_numbers_told(case))
    evidence: list[int] = []
    wanted = [_wanted_number(one) for one in failed]
    for number in wanted:
        if number is None or number not in told:
            return None
        evidence.append(told[number])
    values = ", ".join(f"{number:g}" for number in wanted if number is not None)
    detail = f"the judge looks for other signs than those in which the agent told {values}"
    return Ruling("ground_truth", "literal_demand", tuple(sorted(set(evidence))), detail)


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


def _failed(case: Case) -> list[Check]:
    """Return the checks that failed, where some ran and none is without a verdict."""
    gates = [one for one in case.trajectory.checks if one.gates]
    return (
        [one for one in gates if one.passed is False] if all(one.passed is not None for one in gates) else []
    )


def _named(arguments: object) -> frozenset[str]:
    """Return what names things among some arguments; a number of many digits does so too."""
    return frozenset(
        normal(value) for _, value in leaves(arguments) if looks_like_id(value) or _DIGITS.match(str(value))
    )


def _shows(names: frozenset[str], result: str, objects: frozenset[str]) -> bool:
    """Tell whether a look was at some objects, or showed them."""
    text = normal(result)
    return names <= objects or all(
        re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None for name in names
    )


def _wanted_number(check: Check) -> float | None:
    """Return the number that a check looks for, None where it looks for words."""
    found = _ONE_NUMBER.match(check.detail.partition(" | ")[0].strip())
    return float(found[1].replace(",", "")) if found else None


def _numbers_told(case: Case) -> Iterator[tuple[float, int]]:
    """Yield every number that the agent told its user, with the message."""
    for place, message in enumerate(case.messages):
        if message.role == "assistant" and message.content:
            for found in _NUMBER.finditer(message.content):
                yield float(re.sub(r"[,\u202f ]", "", found[1])), place
