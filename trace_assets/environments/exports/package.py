"""An environment as a folder for another trainer: what is asked of it, what it holds, and its forms."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from trace_assets.errors import InputError
from trace_assets.sandbox import SandboxedEnvironment
from trace_assets.shipped import text_templates
from trace_assets.store.files import write_text
from trace_assets.targets import seeds

PROBED_SEEDS = 3


@dataclass(frozen=True)
class Subject:
    """An environment that is to be exported.

    Attributes:
        name: What it is called, such as a capability's id.
        title: In words.
        source: The module.
        environment: The module in the sandbox, to be asked for its tools.
        backend: Which sandbox the export uses by default.
        seed_key: Key of its seed permutation, in hexadecimal digits: the export plays the same episode for a
            seed as was played here. Empty: the environment is given the seeds as they are.
    """

    name: str
    title: str
    source: str
    environment: SandboxedEnvironment
    backend: str
    seed_key: str = ""

    @property
    def package(self) -> str:
        """Name of the Python package.

        >>> Subject("embedded-Write.x", "", "", None, "docker").package
        'embedded_write_x'
        """
        name = re.sub(r"\W+", "_", self.name).strip("_").lower() or "environment"
        return f"env_{name}" if name[0].isdigit() or keyword.iskeyword(name) else name

    @property
    def class_name(self) -> str:
        """The package's name as the first part of class names."""
        return "".join(part.capitalize() for part in self.package.split("_"))

    def tools(self) -> list[dict[str, Any]]:
        """Return the tools' function schemas."""
        return [tool["function"] for tool in self.environment.tools()]

    def talks(self) -> bool:
        """Tell whether users answer the agent's words, as the environment's own solutions show."""
        for seed in range(PROBED_SEEDS):
            script = self.environment.oracle(seed)
            if any(not action.get("tool_calls") for action in script[:-1]):
                return True
        return False


Render = Callable[[Subject], Mapping[str, str]]


@dataclass(frozen=True)
class Form:
    """One kind of export.

    Attributes:
        name: As the command line has it.
        says: What it is, in a few words.
        render: Returns relative path -> text.
        talks: Whether it can carry environments whose users answer.
    """

    name: str
    says: str
    render: Render
    talks: bool


def write_package(form: Form, subject: Subject, folder: Path) -> list[Path]:
    """Write an export.

    Args:
        form: Which.
        subject: The environment.
        folder: Made when missing; must be empty or hold an earlier export of the same form.

    Returns:
        The files, sorted.

    Raises:
        InputError: The folder holds something else, or this form cannot carry this environment.
        SandboxError: The environment does not answer.
    """
    mark = folder / ".trace-export.json"
    if folder.exists() and any(folder.iterdir()) and _form_of(mark) != form.name:
        raise InputError(
            f"{folder} holds something else than an export to {form.name}; name an empty folder."
        )
    if not form.talks and subject.talks():
        raise InputError(
            f"in '{subject.name}' users answer the agent's words, which {form.name} has no place for: "
            "there a conversation ends at the first text; export it to openenv."
        )
    files = dict(form.render(subject)) | {mark.name: json.dumps({"form": form.name}) + "\n"}
    for name, text in files.items():
        _write(folder / name, text)
    return sorted(folder / name for name in files if name != mark.name)


def _form_of(mark: Path) -> str:
    try:
        return str(json.loads(mark.read_text(encoding="utf-8"))["form"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)


def render(file: str, **values: Any) -> str:
    """Return a template below `templates` with its values filled in."""
    return str(_templates().get_template(file).render(**values))


@cache
def _templates() -> Any:
    environment = text_templates("environments.exports", "templates")
    environment.filters["py"] = repr
    environment.filters["line"] = line
    return environment


def line(text: str) -> str:
    r"""Return a text as it may stand in a docstring.

    >>> line('a "b"\n c\\')
    "a 'b' c/"
    """
    return " ".join(str(text).replace("\\", "/").replace('"', "'").split())


def method_names(subject: Subject, taken: frozenset[str]) -> Iterator[str]:
    """Yield the tools' names as names of Python functions.

    Raises:
        InputError: One cannot be such a name.
    """
    for function in subject.tools():
        name = function["name"]
        if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_") or name in taken:
            raise InputError(f"the tool '{name}' of '{subject.name}' cannot be the name of a Python method.")
        for argument in function["parameters"].get("properties", {}):
            if not argument.isidentifier() or keyword.iskeyword(argument) or argument == "self":
                raise InputError(
                    f"the argument '{argument}' of the tool '{name}' cannot be the name of a Python argument."
                )
        yield name


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
