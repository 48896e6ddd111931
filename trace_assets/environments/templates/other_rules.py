"""Scenes that keep to every other rule of the policy than the one that is taught.

A recipe draws records from values that were seen, and among these are such as forbid what the right way
does: a flight that has left, a contract that has ended. What decides on purpose stays; all else is drawn so
that the change is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.policy_clauses import Atom
from trace_assets.diagnosis.detectors.policy_text import PolicyText
from trace_assets.diagnosis.detectors.values import time_of
from trace_assets.environments.contract.record_rules import RecordRules
from trace_assets.environments.templates.drawable import known_values, leaves_of
from trace_assets.environments.templates.object_context import Ground

ENOUGH_DATES = 6
"""Where fewer dates that were seen keep to the policy, others are drawn beside them."""
HOURS_AROUND = (-2160, -1440, -720, -480, -240, -120, -48, -20, -6, 6, 20, 48, 120, 240, 480, 720, 1440, 2160)
"""How far from now these are tried."""
MAX_NUMBERS = 64


@dataclass(frozen=True)
class Kept:
    """What scenes are drawn from, what breaks another rule left out.

    Attributes:
        record: Drawable schema of the record.
        wishes: With the states in which each is right.
        values: What arguments may be, by name.
    """

    record: dict[str, Any]
    wishes: list[dict[str, Any]]
    values: dict[str, list[Any]]


def keeping_the_others(
    ground: Ground, wishes: Sequence[dict[str, Any]], values: Mapping[str, Sequence[Any]]
) -> Kept:
    """Return the material of scenes without what would break a rule of the policy that is not taught.

    A value is left out where it alone forbids what is asked for, or what is done instead, as far as the
    program can read the policy. Where nothing would be left, all stays, and the audit says so.

    Args:
        ground: The object.
        wishes: What may be asked for; the field of a wish's `guard` decides on purpose.
        values: What arguments may be.
    """
    policy = PolicyText(ground.contract.policy)
    found = Kept(
        deepcopy(ground.record), [dict(one) for one in wishes], {k: list(v) for k, v in values.items()}
    )
    if not policy.text:
        return found
    schemas = {path: held for _, path, held in leaves_of(found.record)}
    known = {
        path: [str(v).lower() if isinstance(v, bool) else str(v) for v in _drawn(held)]
        for path, held in schemas.items()
        if "[]" not in path
    }
    dates = {
        path.replace("[]", ""): str(own[0])
        for path, held in schemas.items()
        if (own := _drawn(held)) and time_of(own[0])
    }
    tools = [one.name for one in ground.contract.tools if one.mutates]
    for wish in found.wishes:
        decided = _decided(wish)
        wish["guard"] = _allowed_by(wish, policy, tools, known)
        for rules in _rules(ground, policy, tools, known, dates, wish, found.values):
            _keep_records(wish, schemas, rules, decided)
            asked_for = {name for one in wish["wordings"] for name in one["arguments"]}
            for argument in found.values.keys() & asked_for - decided:
                own = found.values[argument]
                found.values[argument] = [
                    one for one in own if not rules.forbids_argument(argument, one)
                ] or own
    return found


def _keep_records(
    wish: dict[str, Any], schemas: Mapping[str, dict[str, Any]], rules: RecordRules, decided: frozenset[str]
) -> None:
    """Leave out of the records of a wish what some rules do not allow; what decides on purpose stays."""
    tests = list(rules.together(decided))
    for path, held in schemas.items():
        field = path.replace("[]", "")
        if field not in decided:
            asked = [(atom, wanted) for name, atom, wanted in tests if name == field]
            _keep(wish, path, held, partial(_is_right, rules, field, asked), rules.now)


def _is_right(rules: RecordRules, field: str, asked: Sequence[tuple[Atom, bool]], value: Any) -> bool:
    return not rules.forbids(field, value) and all(
        rules.settles(atom, field, value, wanted) for atom, wanted in asked
    )


def _decided(wish: Mapping[str, Any]) -> frozenset[str]:
    """Return the fields, or the argument, by which a wish is right or not on purpose."""
    guard = wish["guard"] or {}
    fields = {guard.get("field", ""), guard.get("argument", "")}
    return frozenset(fields | {one["field"] for one in guard.get("rule", ())}) - {""}


def _allowed_by(
    wish: Mapping[str, Any], policy: PolicyText, tools: Sequence[str], known: Mapping[str, Sequence[str]]
) -> dict[str, Any] | None:
    """Return a wish's guard with the states alone in which the policy, too, allows the change.

    That a detector names one state in which it is wrong does not make it right in all others.
    """
    guard: dict[str, Any] | None = wish["guard"]
    if not guard or not guard["field"] or not guard["allowed"]:
        return guard
    rules = RecordRules(policy, wish["tool"], tools, known)
    right = [one for one in guard["allowed"] if not rules.forbids(guard["field"], one)]
    return {**guard, "allowed": right or guard["allowed"]}


def _rules(
    ground: Ground,
    policy: PolicyText,
    tools: Sequence[str],
    known: Mapping[str, Sequence[str]],
    dates: Mapping[str, str],
    wish: Mapping[str, Any],
    values: Mapping[str, Sequence[Any]],
) -> list[RecordRules]:
    """Return what the policy asks of the change that is wished for, and of what is done instead."""
    own = {one.name for one in ground.writes}
    instead = (wish["guard"] or {}).get("instead", "")
    made = [one for one in (wish["tool"], instead) if one in own and not hands_over(one)]
    return [RecordRules(policy, one, tools, known, values, dates) for one in made]


def _keep(
    wish: dict[str, Any],
    path: str,
    held: dict[str, Any],
    is_right: Callable[[Any], bool],
    now: str | None,
) -> None:
    """Leave out of a field what is not right for a wish: for it alone where the field is the record's own."""
    own = list(wish["records"].get(path, ())) or _drawn(held)
    right = [value for value in own if is_right(value)]
    if len(right) == len(own):
        return
    if all(time_of(value) is not None for value in own) and len(right) < ENOUGH_DATES:
        right = sorted({*right, *filter(is_right, _around(own, now))})
    if not right:
        return
    if "." not in path and "[]" not in path:
        wish["records"] = {**wish["records"], path: right}
    else:
        for kind in ("examples", "minimum", "maximum"):
            held.pop(kind, None)
        held["enum"] = right


def _drawn(held: Mapping[str, Any]) -> list[Any]:
    """Return what may be drawn from a field's schema; nothing where that is too much to be tried."""
    if held.get("type") == "boolean" and not held.get("enum"):
        return [True, False]
    if held.get("type") == "integer" and not (held.get("enum") or held.get("examples")):
        low, high = held["minimum"], held["maximum"]
        return list(range(low, high + 1)) if high - low < MAX_NUMBERS else []
    return known_values(dict(held)) if held.get("type") not in ("object", "array") else []


def _around(own: Iterable[Any], now: str | None) -> list[str]:
    """Return moments before and after now, written as those that were seen.

    >>> _around(["2031-05-02"], "2031-05-01 12:00")[8:11]
    ['2031-05-02', '2031-05-03', '2031-05-06']
    """
    moment, shown = time_of(now), str(next(iter(own)))
    if moment is None:
        return []
    found = [moment + timedelta(hours=hours) for hours in HOURS_AROUND]
    if len(shown) <= len("2031-05-02"):
        # Of today nobody could say whether it has passed.
        return [one.strftime("%Y-%m-%d") for one in found if one.date() != moment.date()]
    return [one.replace(microsecond=0).isoformat(sep="T" if "T" in shown else " ") for one in found]
