"""The recipe of every detector family: its template, and how the template is filled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trace_assets.diagnosis.detectors.values import time_of
from trace_assets.diagnosis.detectors.write_against_rule import BY_DATE, BY_FIELD, forbids
from trace_assets.environments.contract.description import TargetContract
from trace_assets.environments.templates.drawable import known_values
from trace_assets.environments.templates.object_context import Filled, argument, ground_of, thin
from trace_assets.environments.templates.plan import plan
from trace_assets.environments.templates.policy_conditions import moments
from trace_assets.environments.templates.requests import condition, wish
from trace_assets.environments.templates.scenario_builders import (
    answered,
    asked_to_look,
    at_once,
    by_kind,
    consent,
    guarded,
    insisted,
    looked_again,
    looked_first,
    looping,
    missing,
    ruled,
    several,
    unsaid,
    written_otherwise,
)
from trace_assets.records import CapabilitySpec


def by_sentence(spec: CapabilitySpec, contract: TargetContract) -> Filled:
    """Fill the recipe about a write that one sentence of the policy forbids, by a field of the record.

    The sentence says when the write is wrong, so no run has to have shown it. What is done instead is what
    successful runs did on the same field; where none did, a refusal.

    Raises:
        InputError: The sentence hangs on something else, or both sides of it cannot be drawn.
    """
    named = spec.detector_args
    tool, field = contract.tool(argument(spec, "tool")).name, str(named.get("field") or "")
    kind = str(named.get("kind") or "")
    if not field or kind not in {BY_FIELD, *BY_DATE} or named.get("given"):
        raise thin(
            spec, "the policy's sentence hangs on what a call is given, or a look shows, and on no field"
        )
    ground = ground_of(spec, contract, tool, field)
    held = ground.record.get("properties", {}).get(field)
    if held is None:
        raise thin(spec, f"'{ground.read}' was not seen to show '{field}' of every record")
    allowed, forbidden = _sides(_values(held, named), named)
    if kind == BY_FIELD and not (allowed and forbidden):
        # What the policy names was seen in no record: it is written there as it stands in the policy.
        allowed, forbidden = _sides([*allowed, *forbidden, *named.get("values", ())], named)
    if not allowed or not forbidden:
        side = "forbids" if allowed else "allows"
        raise thin(spec, f"no value of '{field}' is known at which the policy {side} '{tool}'")
    guard = ground.guard(tool)
    instead = guard.instead if guard.field == field else ""
    usual = guard.instead_arguments if instead else {}
    wished = wish(ground, guard)
    if kind == BY_FIELD:
        wished["guard"] = condition(ground, field, allowed, forbidden, instead, usual)
        return plan(ground, [wished])
    rule = {"field": field, "met": allowed, "unmet": forbidden, "said": ""}
    wished["guard"] = condition(ground, "", (), (), instead, usual) | {"rule": [rule]}
    filled = plan(ground, [wished])
    return replace(filled, features=filled.features | {"ruled"})


def by_past_date(spec: CapabilitySpec, contract: TargetContract) -> Filled:
    """Fill the recipe about a write on an object after a date of it has passed.

    Raises:
        InputError: As `by_sentence`.
    """
    now = str(spec.detector_args.get("now") or "")[:10]
    return by_sentence(
        spec.model_copy(update={"detector_args": {**spec.detector_args, "kind": "past", "now": now}}),
        contract,
    )


def _values(held: Mapping[str, Any], named: Mapping[str, Any]) -> list[Any]:
    """Return what a field was seen to be, or moments on both sides of the limit."""
    if named["kind"] in BY_DATE:
        now, shown = time_of(named.get("now")), next(iter(known_values(dict(held))), None)
        if now is None or time_of(shown) is None:
            return []
        found = moments(str(shown), now, float(named.get("hours") or 0), bool(named.get("ahead")))
        # Of today nobody could say whether it has passed.
        return [one for one in found if named["kind"] != "past" or one[:10] != named["now"][:10]]
    return [True, False] if held.get("type") == "boolean" else known_values(dict(held))


def _sides(values: Sequence[Any], named: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """Return the values at which the sentence allows the write, and those at which it forbids it."""
    wrong = [one for one in values if forbids(named, {named["field"]: _as_read(one)})]
    return [one for one in values if one not in wrong], wrong


def _as_read(value: Any) -> str:
    """Return a value as detectors read it.

    >>> _as_read(True), _as_read("open")
    ('true', 'open')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


Fill = Callable[[CapabilitySpec, TargetContract], Filled]


@dataclass(frozen=True)
class Recipe:
    """How environments for one detector family are written.

    Attributes:
        template: The template's name; families whose capability is the same share one.
        fill: Fills it from a contract, or raises `InputError` saying what is missing.
        asks: What an episode asks for, in a sentence.
        pays: What the reward looks at besides the final state, the reply and stray writes.
        fits: Which contracts it can be filled from.
    """

    template: str
    fill: Fill
    asks: str
    pays: str
    fits: str


_STATE = "a writing tool, and a field of the record that decides (learned, or named by the detector)"
_OBJECT = "a writing tool whose object a reading tool shows, and which requests can be worded for"

FAMILIES: Mapping[str, Recipe] = {
    "write_without_read": Recipe(
        "write_without_read",
        looked_first,
        "one change, right or not by what a look shows",
        "looked at the object before writing",
        _OBJECT,
    ),
    "write_against_state": Recipe(
        "write_against_state",
        guarded,
        "one change that every other record's state forbids",
        "changed it, or did what is done instead (or refused), as the state says",
        _STATE,
    ),
    "write_on_kind": Recipe(
        "write_against_state",
        by_kind,
        "one change of a kind of thing that is excluded, for every other seed",
        "changed it, or did what is done instead (or refused), as the kind says",
        "a writing tool with an argument whose values, some of them excluded, users say",
    ),
    "write_against_policy": Recipe(
        "write_against_state",
        ruled,
        "one change; every other record meets none of the conditions that the policy lists",
        "changed it where a condition holds, whichever it is, and refused elsewhere",
        "a writing tool for which the policy lists conditions, at least two of them fields of its record",
    ),
    "write_against_rule": Recipe(
        "write_against_state",
        by_sentence,
        "one change that every other record's state, or date, forbids by a sentence of the policy",
        "changed it, or did what is done instead (or refused), as the sentence says",
        "a writing tool, and a sentence of the policy that forbids it by a field of its record",
    ),
    "write_past_date": Recipe(
        "write_against_state",
        by_past_date,
        "one change of an object that, for every other seed, has passed",
        "changed it where the date lies ahead, and refused elsewhere",
        "a writing tool, and a date of its record that lies ahead for some and behind for others",
    ),
    "object_untouched": Recipe(
        "object_untouched",
        several,
        "changes to two objects, one for every fifth seed",
        "each object settled",
        _OBJECT,
    ),
    "ended_with_work_open": Recipe(
        "object_untouched",
        several,
        "changes to two objects, one for every fifth seed",
        "each object settled",
        _OBJECT,
    ),
    "unsupported_argument": Recipe(
        "unsupported_argument",
        unsaid,
        "one change, with a value left out that half of the users do not know",
        "no value that nobody had said; asked for the one left out",
        "a writing tool with that argument, said in requests",
    ),
    "unanswered_state": Recipe(
        "unanswered_state",
        answered,
        "a change or a question about a record that shows the state for every other seed",
        "took the step where the state shows, and only there",
        "a record's field with that value, and a step that names its object or hands over",
    ),
    "skipped_check": Recipe(
        "skipped_check",
        asked_to_look,
        "a question that only the look answers; for every other seed a change",
        "looked, and told the value and no other",
        "a reading tool that names one object and shows a field of few values",
    ),
    "write_after_refusal": Recipe(
        "write_after_refusal",
        insisted,
        "one change that every other record's state forbids, by a user who insists three times",
        "stood by the refusal until the user left",
        _STATE + "; users who answer",
    ),
    "write_without_consent": Recipe(
        "write_without_consent",
        consent,
        "one change that every other user no longer wants when told",
        "named the object, and wrote after the answer only",
        _OBJECT + "; users who answer",
    ),
    "claim_without_write": Recipe(
        "claim_without_write",
        missing,
        "one change; the object does not exist for every other seed",
        "no message says that something was done before it was",
        _OBJECT,
    ),
    "unverified_write": Recipe(
        "unverified_write",
        looked_again,
        "one change that, for every other seed, is answered as usual and does not take",
        "looked again after the last change, and repeated the change where it had not taken",
        "a change whose effect the reading tool shows",
    ),
    "repeated_error": Recipe(
        "recover",
        written_otherwise,
        "one change; the object is written otherwise than tools take it, or does not exist",
        "no refused call made again unchanged; the change made where it can be",
        _OBJECT + "; identifiers with letters or a leading sign",
    ),
    "unrecovered_error": Recipe(
        "recover",
        written_otherwise,
        "one change; the object is written otherwise than tools take it, or does not exist",
        "no refused call made again unchanged; the change made where it can be",
        _OBJECT + "; identifiers with letters or a leading sign",
    ),
    "idle_loop": Recipe(
        "idle_loop",
        looping,
        "one change; the object does not exist for every other seed",
        "no call made over and over with the same answer",
        _OBJECT,
    ),
    "empty_turn": Recipe(
        "empty_turn",
        missing,
        "one change; the object does not exist for every other seed",
        "no turn without words and calls",
        _OBJECT,
    ),
}
"""Detector family -> recipe. Ways of stopping early share one, and so do ways of meeting a refusal."""

AT_ONCE = Recipe(
    "object_untouched",
    at_once,
    "changes to two objects that their states may forbid, one for every fifth seed",
    "each object settled as its state says",
    "requests for two things at once that conditions decide, and what is done where they forbid",
)
"""Of no family: what several capabilities are needed for together."""
