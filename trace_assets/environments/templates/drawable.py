"""A schema as a generated module draws from it: of what was seen, the part that is always there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

MAX_CHARACTERS = 12_000
"""A schema written longer than this keeps fewer examples, so that the module stays readable."""
MAX_EXAMPLES = 12


def drawable(schema: dict[str, Any], keep: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return a schema of values like those of a contract's schema, for the generated module's `_draw`.

    Fields that are often missing are left out, fields that may be null are null, and unions become their
    first kind. A schema of nothing else comes back as it is.

    Args:
        schema: As inferred from results.
        keep: Fields of the whole that stay although some results lack them.

    >>> drawable({"type": ["null", "string"], "enum": ["late", None]})
    {'type': 'null'}
    >>> drawable({"type": "object", "properties": {"a": {"type": "boolean"}, "b": {}}, "required": ["a"]})
    {'type': 'object', 'properties': {'a': {'type': 'boolean'}}, 'required': ['a']}
    """
    short = len(json.dumps(schema)) > MAX_CHARACTERS
    if schema.get("type") == "object" and "properties" in schema:
        wanted = [n for n in schema["properties"] if n in keep or n in schema.get("required", ())]
        schema = {**schema, "required": wanted} if wanted != schema.get("required") else schema
    return _drawable(schema, short)


def _drawable(schema: dict[str, Any], short: bool) -> dict[str, Any]:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = "null" if "null" in kind else kind[0]
        schema = {**schema, "type": kind}
    if kind == "null" or not schema:
        return {"type": "null"}
    if kind == "object" and "additionalProperties" in schema:
        values = _drawable(schema["additionalProperties"], short)
        return {
            "type": "object",
            "additionalProperties": values,
            "propertyNames": _few(schema["propertyNames"]),
        }
    if kind == "object":
        required = schema.get("required", ())
        inner = {
            name: _drawable(held, short) for name, held in schema["properties"].items() if name in required
        }
        return {**schema, "properties": inner}
    if kind == "array" and "items" in schema:
        return {**schema, "items": _drawable(schema["items"], short)}
    if kind == "string" and "enum" not in schema and "examples" not in schema:
        return {"type": "null"}
    return _few(schema) if short else schema


def _few(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema of a text with at most `MAX_EXAMPLES` values, spread over all."""
    small = {"type": schema["type"]} if "type" in schema else {}
    for name in ("enum", "examples"):
        values = schema.get(name)
        if values and len(values) > MAX_EXAMPLES:
            return small | {name: values[:: -(-len(values) // MAX_EXAMPLES)]}
    return schema


def has_maps(schema: dict[str, Any]) -> bool:
    """Tell whether a drawable schema holds an object whose keys are data."""
    if isinstance(schema.get("additionalProperties"), dict):
        return True
    inner = [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]
    return any(has_maps(one) for one in inner)


def leaves_of(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield (name, path, schema) of every field; elements of a list are at `list[].name`.

    >>> [path for _, path, _ in leaves_of({"type": "object", "properties": {"a": {"type": "null"}}})]
    ['a']
    """
    for name, held in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield name, here, held
        if held.get("type") == "object":
            yield from leaves_of(held, here)
        elif held.get("type") == "array":
            yield from leaves_of(held.get("items", {}), here + "[]")


def known_values(schema: dict[str, Any]) -> list[Any]:
    """Return values that a field was seen with, or may have between those seen; empty when none are known.

    >>> known_values({"type": "integer", "minimum": 0, "maximum": 2})
    [0, 1, 2]
    """
    if schema.get("type") == "integer":
        low, high = schema["minimum"], schema["maximum"]
        return list(range(low, min(high, low + MAX_EXAMPLES) + 1))
    return [one for one in (schema.get("enum") or schema.get("examples") or ()) if one is not None]
