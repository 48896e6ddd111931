"""Where the values of a call's arguments come from in a scene: the request, or the record."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from trace_assets.records import ToolSpec
from trace_assets.synthesis.contract.guards import Guard
from trace_assets.synthesis.contract.target_contract import TargetContract
from trace_assets.synthesis.recipes.drawable import drawable, known_values, leaves_of

_PATH = re.compile(r"\w+(?:\[\]\.\w+)?")
"""Paths that the simulator follows: a field, or a field of a list's elements."""


@dataclass
class Sources:
    """How the required arguments of one tool are filled, beside the one that names its object.

    Attributes:
        values: Argument -> values that a request may name.
        selects: Argument -> path in the record at which its value is found (`field` or `field[].name`).
        wraps: Arguments that are lists: they get the one value that was chosen.
        copies: Argument -> fields of the record's list of the same name that are taken over.
        missing: Arguments for which nothing is known.
    """

    values: dict[str, list[Any]] = field(default_factory=dict)
    selects: dict[str, str] = field(default_factory=dict)
    wraps: list[str] = field(default_factory=list)
    copies: dict[str, list[str]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def sources_of(contract: TargetContract, tool: ToolSpec, guard: Guard, record: dict[str, Any]) -> Sources:
    """Find where a tool's arguments come from.

    Args:
        contract: Knows values that requests gave.
        tool: The writing tool.
        guard: Which argument names the object.
        record: Drawable schema of the record.
    """
    found = Sources()
    properties = tool.parameters.get("properties", {})
    for name in tool.parameters.get("required", ()):
        if name != guard.object_argument:
            schema = properties.get(name, {})
            _place(found, name, schema, tool.parameters.get("$defs", {}), contract, guard, record)
    return found


def _place(
    found: Sources,
    name: str,
    schema: dict[str, Any],
    defs: dict[str, Any],
    contract: TargetContract,
    guard: Guard,
    record: dict[str, Any],
) -> None:
    leaves = list(leaves_of(record))
    listed = schema.get("enum") or alternatives(str(schema.get("description", "")))
    paths = [at for leaf, at, held in leaves if leaf == _one(name) and "[]" in at and known_values(held)]
    path = next((at for at in [guard.selects.get(name, ""), *paths] if _PATH.fullmatch(at)), "")
    whole = next(
        (held for leaf, at, held in leaves if leaf == at == name and held.get("type") == "array"), None
    )
    own = next((held for leaf, at, held in leaves if leaf == name and "[]" not in at), None)
    if schema.get("type") == "array" and whole and whole.get("items", {}).get("type") == "object":
        found.copies[name] = _fields(schema, defs, list(whole["items"]["properties"]))
    elif schema.get("type") == "array":
        if path:
            found.selects[name] = path
            found.wraps.append(name)
        else:
            found.missing.append(name)
    elif listed:
        found.values[name] = list(listed)
    elif path:
        found.selects[name] = path
    elif own is not None and len(known_values(own)) > 1:
        found.values[name] = known_values(own)
    elif len(values := contract.phrasing.values.get(name, {}).get("values", ())) > 1:
        found.values[name] = list(values)
    elif own is not None and known_values(own) and name in record["properties"]:
        found.selects[name] = name
    elif seen := _seen_anywhere(contract, name):
        found.values[name] = seen
    else:
        found.missing.append(name)


def _seen_anywhere(contract: TargetContract, name: str) -> list[Any]:
    """Return the values of the first field of that name in any tool's results."""
    for shape in contract.results:
        for leaf, _, held in leaves_of(drawable(dict(shape.json_schema))):
            if leaf == name and known_values(held):
                return known_values(held)
    return []


def alternatives(description: str) -> list[str]:
    """Return the values that a description lists in quotes as the only ones.

    >>> alternatives("Why, which should be either 'no longer needed' or 'ordered by mistake'.")
    ['no longer needed', 'ordered by mistake']
    >>> alternatives("The id, such as 'A1' or 'B2'.")
    []
    """
    if not re.search(r"\b(?:either|one of|must be|should be)\b", description) or "such as" in description:
        return []
    quoted = re.findall(r"'([^']+)'", description)
    return quoted if len(quoted) > 1 else []


def _one(name: str) -> str:
    """Return the singular of a plural argument, `item_ids` -> `item_id`; others unchanged."""
    return name[:-1] if name.endswith("s") and not name.endswith("ss") else name


def _fields(schema: dict[str, Any], defs: dict[str, Any], known: list[str]) -> list[str]:
    """Return the fields of an array's elements that the tool's schema asks for; all where it does not say."""
    items = schema.get("items", {})
    for option in [items, *items.get("anyOf", ()), *items.get("oneOf", ())]:
        option = defs.get(str(option.get("$ref", "")).rpartition("/")[2], option)
        wanted = option.get("required") or option.get("properties")
        if wanted and any(name in known for name in wanted):
            return [name for name in wanted if name in known]
    return known
