"""What a recipe's simulator is filled with: all it knows of the target, and what the policy asks besides."""

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
from trace_assets.environments.templates.drawable import drawable, has_maps, known_values, leaves_of
from trace_assets.environments.templates.object_context import Filled, Ground, thin
from trace_assets.environments.templates.requests import CLOSINGS, FRAMES, OPENINGS, sources

# A recipe draws records from values that were seen, and among these are such as forbid what the right way
# does: a flight that has left, a contract that has ended. What decides on purpose stays; all else is drawn so
# that the change is right, by every other rule of the policy.

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
        right = sorted({*right, *filter(is_right, _moments_around(own, now))})
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


def _moments_around(own: Iterable[Any], now: str | None) -> list[str]:
    """Return moments before and after now, written as those that were seen.

    >>> _moments_around(["2031-05-02"], "2031-05-01 12:00")[8:11]
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


DEFAULT_FRAMES = ("{first}, and {second}", "{first}; also {second}")
FEATURES = (
    "around",
    "at_once",
    "by_kind",
    "copies",
    "instead_keyless",
    "keyless",
    "maps",
    "named",
    "nested",
    "plain_errors",
    "read_key",
    "refusals",
    "refuses",
    "ruled",
    "shows",
    "steps",
    "unnamed",
    "untold",
    "user_answers",
    "wraps",
)
"""Parts of the simulator that some targets need, or some recipes."""
MAX_SHOWN = 9_000
"""Results whose schema is written longer than this are not shown."""
GO_AHEAD = "Yes, that is what I want. Please go ahead."


def plan(ground: Ground, wishes: Sequence[dict[str, Any]], **more: Any) -> Filled:
    """Return the plan for some wishes about objects of one kind."""
    contract, key = ground.contract, ground.key
    everything = [*wishes, *more.get("questions", ())]
    asked = {one["tool"] for one in everything}
    learned = {pattern.text for pattern in contract.phrasing.patterns}
    built = not any(wording["text"] in learned for one in everything for wording in one["wordings"])
    filled = {name: sources(ground, name) for name in sorted(asked - {ground.read})}
    values = {
        name: list(found["values"])
        for name, found in contract.phrasing.values.items()
        if not found["identifier"] and not built
    }
    for one in filled.values():
        values |= one.values
    kept = keeping_the_others(ground, wishes, values)
    wishes = kept.wishes
    guards = [
        guard for guard in contract.guards if guard.read == ground.read and guard.object_argument == key
    ]
    shape = contract.result(ground.read)
    reading = [tool.name for tool in contract.tools if tool.mutates is False]
    content: dict[str, Any] = {
        "system": contract.protocol.starts_with_system or bool(contract.policy),
        "policy": contract.policy,
        "turns": max(contract.protocol.assistant_turns, 7),
        "read": ground.read,
        "reading": reading,
        "key": key,
        "record": kept.record,
        "compact": bool(shape and shape.compact),
        "identifiers": ground.identifiers,
        "values": kept.values,
        "openings": list(OPENINGS if built else contract.phrasing.openings) or [""],
        "closings": list(CLOSINGS if built else contract.phrasing.closings) or [""],
        "frames": list(FRAMES if built else contract.phrasing.frames) or list(DEFAULT_FRAMES),
        "wishes": list(wishes),
        "selects": {guard.tool: guard.selects for guard in guards}
        | {
            name: {**ground.guard(name).selects, **one.selects} for name, one in filled.items() if one.selects
        },
        "refusals": {
            guard.tool: {"field": guard.field, "values": list(guard.forbidden), "error": guard.refusal}
            for guard in guards
            if guard.refusal
        },
        "written": {result.tool: result.usual for result in contract.results if result.usual},
        "no_object": ground.error([ground.read], {key})
        or _unseen("there is no " + key + " {" + key + "}", ground),
        "no_part": ground.error([tool.name for tool in ground.writes], {key}, more=True)
        or _unseen("there is no {part} in " + key + " {" + key + "}", ground),
    }
    return _with_features(ground, content, filled, wishes, more)


def _unseen(text: str, ground: Ground) -> str:
    """Return an error that was never seen, in the form of those that were."""
    return f"Error: {text}" if ground.plain_errors else f'{{"error": "{text}"}}'


def _with_features(
    ground: Ground,
    content: dict[str, Any],
    filled: dict[str, Any],
    wishes: Sequence[dict[str, Any]],
    more: dict[str, Any],
) -> Filled:
    """Add what only some targets need."""
    contract, features = ground.contract, set()
    shows = {
        tool.name: schema
        for tool in contract.tools
        if tool.mutates is False and tool.name != ground.read and (schema := _shown(ground, tool.name))
    }
    optional: dict[str, tuple[str, Any]] = {
        "read_key": ("read_key", ground.read_key if ground.read_key != ground.key else ""),
        "copies": ("copies", {name: one.copies for name, one in filled.items() if one.copies}),
        "wraps": ("wraps", {name: one.wraps for name, one in filled.items() if one.wraps}),
        "keyless": ("keyless", ground.keyless),
        "shows": ("shows", shows),
        "user_answers": ("go_ahead", GO_AHEAD if ground.user_answers else ""),
    }
    for feature, (name, value) in optional.items():
        if value:
            features.add(feature)
            content[name] = value
    if ground.answering or any(one.values and not one.selects for one in filled.values()):
        features.add("nested")
        content |= {"effects": ground.effects, "answers_record": list(ground.answering)}
        around = {
            name: [place, _around(ground, name, place)] for name, place in ground.answering.items() if place
        }
        if around:
            features.add("around")
            content["around"] = around
    if any(has_maps(schema) for schema in [ground.record, *shows.values()]):
        features.add("maps")
    if any(c.islower() for value in ground.identifiers for c in value):
        # Words in identifiers stay words: letters drawn one by one would name nobody.
        features.add("named")
    if ground.plain_errors:
        features.add("plain_errors")
    conditions = [one["guard"] for one in wishes if one["guard"]]
    if any(one["guard"] and one["tool"] in content["refusals"] for one in wishes):
        features.add("refusals")
    if any(not one["instead"] for one in conditions):
        features.add("refuses")
    if any(one["guard"] and one["reads_only"] for one in wishes):
        features.add("steps")
    if wishes and all(_asks_for_what_decides(one, content["values"]) for one in wishes):
        features.add("untold")
    if any(one["instead"] in ground.keyless for one in conditions):
        features.add("instead_keyless")
    return Filled(content | more, frozenset(features))


def _asks_for_what_decides(wish: Mapping[str, Any], values: Mapping[str, Sequence[Any]]) -> bool:
    """Whether a wish gives another value to the field that decides, and several of these allow it."""
    guard = wish["guard"]
    asked = guard and any(guard["field"] in one["arguments"] for one in wish["wordings"])
    return bool(asked and sum(one in guard["allowed"] for one in values.get(guard["field"], ())) > 1)


def _around(ground: Ground, tool: str, place: str) -> dict[str, Any]:
    """Return a drawable schema of an answer without the record that it holds."""
    shape = ground.contract.result(tool)
    schema = drawable(dict(shape.json_schema)) if shape else {}
    rest = {name: held for name, held in schema["properties"].items() if name != place}
    return {"type": "object", "properties": rest}


def _shown(ground: Ground, tool: str) -> dict[str, Any]:
    """Return a drawable schema of what another reading tool shows; empty if not known or too long."""
    shape = ground.contract.result(tool)
    schema = drawable(dict(shape.json_schema)) if shape and shape.json_schema else {}
    return schema if schema.get("type") != "null" and len(str(schema)) <= MAX_SHOWN else {}


def no_state(ground: Ground, tool: str) -> Exception:
    """Return the error for a write of which it is not known when it is right."""
    return thin(
        ground.spec, f"successful trajectories do not show when '{tool}' is right and what is done otherwise"
    )
