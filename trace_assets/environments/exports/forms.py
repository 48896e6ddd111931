"""The forms in which an environment can be exported: for TRL, OpenEnv and verifiers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trace_assets.environments.exports.package import Form, Subject, line, method_names, render, write_package
from trace_assets.errors import InputError
from trace_assets.targets import seeds

_OPENENV = (
    "README.md",
    "__init__.py",
    "client.py",
    "models.py",
    "openenv.yaml",
    "pyproject.toml",
    "server/Dockerfile",
    "server/__init__.py",
    "server/app.py",
    "server/episode.py",
    "server/runner.py",
    "server/served_environment.py",
)
_HINTS = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
}
_TAKEN = frozenset({"reset", "get_reward", "close"})


def _in_openenv(subject: Subject) -> Mapping[str, str]:
    rendered = {name: render(f"openenv/{name}.jinja", **_values(subject)) for name in _OPENENV}
    own = {"server/environment.txt": subject.source}
    if subject.seed_key:
        own["server/seed_permutation.py"] = Path(seeds.__file__).read_text(encoding="utf-8")
    return {**rendered, **own}


def _in_trl(subject: Subject) -> Mapping[str, str]:
    names = list(method_names(subject, _TAKEN))
    methods = [_method(name, function) for name, function in zip(names, subject.tools(), strict=True)]
    values = _values(subject)
    return {
        f"{subject.package}/__init__.py": render("trl/__init__.py.jinja", methods=methods, **values),
        f"{subject.package}/environment.txt": subject.source,
        "README.md": render("trl/README.md.jinja", **values),
    }


def _in_verifiers(subject: Subject) -> Mapping[str, str]:
    own = ("__init__.py", "taskset.py", "tool_server.py")
    places = {f"{subject.package}/{name}": name for name in own}
    places |= {name: name for name in ("pyproject.toml", "README.md")}
    values = _values(subject)
    return {
        **{place: render(f"verifiers/{name}.jinja", **values) for place, name in places.items()},
        f"{subject.package}/environment.txt": subject.source,
        f"{subject.package}/tools.json": json.dumps(subject.tools(), ensure_ascii=False, indent=1) + "\n",
    }


def _values(subject: Subject) -> dict[str, str]:
    return {
        "package": subject.package,
        "class_name": subject.class_name,
        "title": subject.title,
        "backend": subject.backend,
        "seed_key": subject.seed_key,
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


FORMS: dict[str, Form] = {
    form.name: form
    for form in (
        Form("openenv", "an OpenEnv package whose server runs in its own container", _in_openenv, talks=True),
        Form(
            "trl", "a class for TRL's environment_factory, with its rows and its reward", _in_trl, talks=False
        ),
        Form(
            "verifiers",
            "a taskset for verifiers v1, with its tool server and its reward",
            _in_verifiers,
            talks=False,
        ),
    )
}


def export_environment(subject: Subject, form: str, folder: Path) -> list[Path]:
    """Write an environment in a form; see `write_package`.

    Raises:
        InputError: There is no such form, or it cannot carry the environment.
    """
    if form not in FORMS:
        raise InputError(f"there is no export to '{form}'; there are {', '.join(FORMS)}.")
    return write_package(FORMS[form], subject, folder)
