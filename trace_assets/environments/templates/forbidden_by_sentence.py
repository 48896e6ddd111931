"""A recipe about a write that one sentence of the policy forbids, by a field of the record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from trace_assets.diagnosis.detectors.values import time_of
from trace_assets.diagnosis.detectors.write_against_rule import BY_DATE, BY_FIELD, forbids
from trace_assets.environments.contract.description import TargetContract
from trace_assets.environments.templates.drawable import known_values
from trace_assets.environments.templates.object_context import Filled, argument, ground_of, thin
from trace_assets.environments.templates.plan import plan
from trace_assets.environments.templates.policy_conditions import moments
from trace_assets.environments.templates.requests import condition, wish
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
