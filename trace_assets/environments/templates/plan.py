"""What a recipe's simulator is filled with: everything it knows of the target, taken from the contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trace_assets.environments.templates.drawable import drawable, has_maps
from trace_assets.environments.templates.object_context import Filled, Ground
from trace_assets.environments.templates.other_rules import keeping_the_others
from trace_assets.environments.templates.problems import thin
from trace_assets.environments.templates.requests import CLOSINGS, FRAMES, OPENINGS, sources

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
    "user_answers",
    "wraps",
)
"""Parts of the simulator that some targets need, or some recipes."""
MAX_SHOWN = 9_000
"""Results whose schema is written longer than this are not shown."""
GO_AHEAD = "Yes, that is what I want. Please go ahead."


def plan(ground: Ground, wishes: Sequence[dict[str, Any]], **more: Any) -> Filled:
    """Return the plan for some wishes about objects of one kind.

    Args:
        ground: The object.
        wishes: What may be asked for.
        more: What one recipe needs besides, put at the end.
    """
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
    if any(one["instead"] in ground.keyless for one in conditions):
        features.add("instead_keyless")
    return Filled(content | more, frozenset(features))


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
