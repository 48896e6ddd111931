"""A guard of several conditions: what the policy lists of which one must hold, as values that scenes draw."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from trace_assets.diagnosis.detectors.policy_text import PolicyText
from trace_assets.diagnosis.detectors.transcript import Observation
from trace_assets.diagnosis.detectors.values import time_of
from trace_assets.diagnosis.detectors.write_against_policy import read_condition
from trace_assets.environments.templates.drawable import known_values, leaves_of
from trace_assets.environments.templates.object_context import Ground

MOMENTS = 40
"""Moments that are drawn on either side of a limit."""
FAR_HOURS = 24 * 60
"""How long before now the oldest of them is, where the limit is not longer ago than that."""
_YES = frozenset({"yes", "true"})


def rule_of(ground: Ground, tool: str) -> list[dict[str, Any]]:
    """Return the conditions of which one must hold for a tool to be used; empty where the policy lists none.

    A condition that is no field of the record (what a third party did) is left out: scenes never meet it.
    One that hangs on words beside a field (`is insured and the reason is covered`) holds where the request
    says these words.

    Returns:
        Conditions with the record's `field`, its values where the condition is `met` and where none on that
        field is (`unmet`), and what must be `said` besides.
    """
    policy = PolicyText(ground.contract.policy)
    listed = policy.any_of(tool, [one.name for one in ground.contract.tools])
    fields = ground.record.get("properties", {})
    seen = [
        Observation(0, ground.read, {name: str(value).lower() if isinstance(value, bool) else str(value)})
        for name, held in fields.items()
        for value in (known_values(held) if held.get("type") != "boolean" else (True, False))
    ]
    read = [(text, read_condition(text, seen, policy.now)) for text in listed]
    known = [(text, one) for text, one in read if "field" in one]
    if len(listed) < 2 or not known:
        return []
    rule = []
    for text, one in known:
        name = one["field"]
        values = _values(fields[name], one, policy.now)
        met = [v for v in values if _holds(one, v, policy.now)]
        same = [other for _, other in known if other["field"] == name]
        unmet = [v for v in values if not any(_holds(other, v, policy.now) for other in same)]
        said = _besides(text, name, seen, policy.now)
        if said is None:
            return []  # two fields at once: scenes would have to draw them together
        if met and unmet:
            rule.append({"field": name, "met": met, "unmet": unmet, "said": said})
    return rule if any(not one["said"] for one in rule) else []


def right_by_rule(ground: Ground, tool: str) -> dict[str, list[Any]]:
    """Return values of a field under which one of the policy's conditions for a tool holds; empty without."""
    for one in rule_of(ground, tool):
        if not one["said"]:
            return {one["field"]: one["met"]}
    return {}


def _values(held: Mapping[str, Any], one: Mapping[str, Any], now: str | None) -> list[Any]:
    if "within_hours" not in one:
        return [True, False] if held.get("type") == "boolean" else known_values(dict(held))
    moment = time_of(now)
    return _moments(held, moment, float(one["within_hours"])) if moment else []


def _moments(held: Mapping[str, Any], now: datetime, hours: float) -> list[str]:
    return moments(str(next(iter(known_values(dict(held))), "")), now, hours)


def moments(shown: str, now: datetime, hours: float, ahead: bool = False) -> list[str]:
    """Return moments on both sides of a limit, written as one that was seen.

    They lie whole hours apart in pairs: minutes and seconds must not tell the side.

    Args:
        shown: A moment as the target writes it.
        now: The policy's clock.
        hours: How far from now the limit lies; 0 for what has passed or not.
        ahead: Whether it lies after now.

    >>> found = moments("2031-05-02", datetime(2031, 5, 1, 12), 48, ahead=True)
    >>> found[0] >= "2031-05-01", found[-1] > "2031-05-10"
    (True, True)
    >>> found = moments("2031-05-02 08:00", datetime(2031, 5, 1, 12), 0)
    >>> min(found) < "2031-05-01", max(found) > "2031-05-02"
    (True, True)
    """
    rng = random.Random("moments on both sides of a limit")
    far = max(FAR_HOURS, 3 * hours)
    near = [rng.uniform(0.02, 0.95) * (hours or far) for _ in range(MOMENTS)]
    if hours:
        other = [one + math.ceil(rng.uniform(1.05 * hours, far) - one) for one in near]
    else:
        other = [one - math.ceil(one + rng.uniform(1, far)) for one in near]
    way = 1 if ahead or not hours else -1
    found = [(now + way * timedelta(hours=one)).replace(microsecond=0) for one in near + other]
    if len(shown) <= len("2024-05-15"):
        return sorted({one.strftime("%Y-%m-%d") for one in found})
    return [one.isoformat(sep="T" if "T" in shown else " ") for one in found]


def _holds(one: Mapping[str, Any], value: Any, now: str | None) -> bool:
    if "within_hours" in one:
        moment, limit = time_of(value), time_of(now)
        return bool(moment and limit and limit - moment <= timedelta(hours=float(one["within_hours"])))
    return str(value).lower() in _YES if one.get("yes") else str(value) == str(one["value"])


def _besides(text: str, field: str, seen: Sequence[Observation], now: str | None) -> str | None:
    """Return what must hold beside the field, as a user says it; empty where nothing, None for another field.

    >>> seen = [Observation(0, "get", {"insured": "yes", "cabin": "business"})]
    >>> _besides("the user is insured and the reason is covered by it.", "insured", seen, None)
    'The reason is covered by it.'
    >>> [_besides(text, "insured", seen, None) for text in ("it is insured", "it is insured and business")]
    ['', None]
    """
    for clause in re.split(r",?\s+and\s+", text)[1:]:
        if read_condition(clause, seen, now).get("field", field) != field:
            return None
        plain = clause.strip(" .")
        return f"{plain[:1].upper()}{plain[1:]}."
    return ""


def other_words(ground: Ground, tool: str) -> frozenset[str]:
    """Return the words of the listed conditions: a value that is one of them would say that one holds."""
    policy = PolicyText(ground.contract.policy)
    listed = policy.any_of(tool, [one.name for one in ground.contract.tools])
    words = (word for text in listed for word in read_condition(text, (), None).get("words", ()))
    return frozenset(words)


def scenes_of(filled: dict[str, Any], words: frozenset[str], now: str | None, rule: frozenset[str]) -> None:
    """Keep what would decide beside the rule out of the values that scenes are drawn from.

    Values that are a word of a condition, and dates that are past where later ones are known (what lies
    behind can no longer be changed), at every depth; the rule's own fields stay.
    """
    for schema in [filled["record"], *filled.get("shows", {}).values()]:
        for _, path, held in list(leaves_of(schema)):
            if path in rule:
                continue
            for kind in ("enum", "examples"):
                values = held.get(kind)
                if values:
                    held[kind] = _to_draw(values, words, time_of(now)) or values
        if schema.get("type") == "string" and schema.get("enum"):
            schema["enum"] = _to_draw(schema["enum"], words, None) or schema["enum"]


def _to_draw(values: Sequence[Any], words: frozenset[str], now: datetime | None) -> list[Any]:
    kept = [value for value in values if str(value).lower() not in words]
    moments = [time_of(value) for value in kept]
    if now is None or None in moments:
        return kept
    return [value for value, moment in zip(kept, moments, strict=True) if moment and moment > now] or kept
