"""An environment as a class for TRL's `environment_factory`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from trace_assets.environments.exports.package import Form, Subject, line, method_names, render

_HINTS = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
}
_TAKEN = frozenset({"reset", "get_reward", "close"})


def files(subject: Subject) -> Mapping[str, str]:
    """Return the files of the export."""
    names = list(method_names(subject, _TAKEN))
    methods = [_method(name, function) for name, function in zip(names, subject.tools(), strict=True)]
    values = {
        "package": subject.package,
        "class_name": subject.class_name,
        "title": subject.title,
        "backend": subject.backend,
        "seed_key": subject.seed_key,
    }
    return {
        f"{subject.package}/__init__.py": render("trl/__init__.py.jinja", methods=methods, **values),
        f"{subject.package}/environment.txt": subject.source,
        "README.md": render("trl/README.md.jinja", **values),
    }


def _method(name: str, function: Mapping[str, Any]) -> dict[str, Any]:
    parameters = function["parameters"]
    required = set(parameters.get("required", ()))
    arguments = [
        {"name": argument, "hint": hint(schema), "says": _says(schema), "required": argument in required}
        for argument, schema in parameters.get("properties", {}).items()
    ]
    arguments.sort(key=lambda one: not one["required"])  # Python wants those with a default last
    return {"name": name, "says": line(function.get("description", "")) or name, "arguments": arguments}


def hint(schema: Mapping[str, Any]) -> str:
    """Return the type hint of a JSON schema.

    >>> hint({"type": "array", "items": {"type": "string"}})
    'list[str]'
    """
    kind = schema.get("type", "string")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "string")
    inner = schema.get("items")
    if kind == "array" and isinstance(inner, dict) and inner.get("type") in _HINTS:
        return f"list[{hint(inner)}]"
    return _HINTS.get(str(kind), "str")


def _says(schema: Mapping[str, Any]) -> str:
    """Return an argument's line in the docstring; choices in the form that transformers reads."""
    text = line(schema.get("description", "")) or "No description."
    return f"{text} (choices: {json.dumps(schema['enum'])})" if schema.get("enum") else text


FORM = Form("trl", "a class for TRL's environment_factory, with its rows and its reward", files, talks=False)
