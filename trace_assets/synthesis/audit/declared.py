"""Whether the tools do what they declare: those declared answer, and what the schemas forbid is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trace_assets.synthesis.audit.attackers import arguments_for
from trace_assets.synthesis.audit.attackers.script import properties
from trace_assets.synthesis.audit.check import AuditCheck, Finding, Subject

Call = dict[str, Any]

WRONG: dict[str, Any] = {
    "string": ["not", "a", "text"],
    "integer": "seven",
    "number": "seven",
    "boolean": "maybe",
    "array": "not a list",
    "object": "not an object",
}
"""A value that is surely not of a type."""


def tool_declaration_accuracy(subject: Subject) -> Finding:
    """Declared tools answer, undeclared ones are refused, and so are arguments that a schema forbids.

    A refusal is a tool message marked as an error. A declared tool that answers word for word like one that
    does not exist is not there.
    """
    probe, n = subject.probe, 0
    bound = "declared tools answer, all else is refused"
    for seed in subject.seeds[: subject.sizes.compared]:
        rng = probe.chance(f"declared/{seed}")
        for tool in probe.tools():
            name = tool["function"]["name"]
            arguments = arguments_for(tool, probe, seed, rng)[0]
            ghost = f"{name}_{rng.randrange(10**6)}"
            there, missing = probe.ask(
                seed, [{"name": name, "arguments": arguments}, {"name": ghost, "arguments": arguments}]
            )
            if not _refused(missing):
                return Finding("fail", f"seed {seed}: the undeclared tool {ghost} answers", None, n, bound)
            if _refused(there) and _masked(there, name) == _masked(missing, ghost):
                return Finding("fail", f"seed {seed}: the declared tool {name} is not there", None, n, bound)
            wrong = list(_wrong_calls(tool, arguments))
            for (what, _), told in zip(wrong, probe.ask(seed, [one for _, one in wrong]), strict=True):
                if not _refused(told):
                    return Finding("fail", f"seed {seed}: {name} accepts {what}", None, n, bound)
            n += 2 + len(wrong)
        names = {tool["function"]["name"] for tool in probe.tools()}
        twins = sorted({look_alike(name) for name in names} - names)
        for twin, told in zip(
            twins, probe.ask(seed, [{"name": twin, "arguments": {}} for twin in twins]), strict=True
        ):
            if not _refused(told):
                return Finding("fail", f"seed {seed}: the undeclared tool {twin!a} answers", None, n, bound)
        n += len(twins)
    return Finding("pass", "as declared", None, n, bound)


def _refused(message: dict[str, Any]) -> bool:
    return bool(message.get("is_error") or message.get("error"))


def _masked(message: dict[str, Any], name: str) -> str:
    return (message.get("content") or "").replace(name, "#")


def _wrong_calls(tool: dict[str, Any], arguments: dict[str, Any]) -> Iterator[tuple[str, Call]]:
    """Yield calls that the tool's schema forbids in one place each, in words and as a call."""
    name, parameters = tool["function"]["name"], tool["function"]["parameters"]
    for required in parameters.get("required", ()):
        left = {key: value for key, value in arguments.items() if key != required}
        yield f"a call without '{required}'", {"name": name, "arguments": left}
    for key, schema in properties(tool).items():
        kind = schema.get("type")
        if isinstance(kind, str) and kind in WRONG:
            yield (
                f"{WRONG[kind]!r} as '{key}', which is of type {kind}",
                {"name": name, "arguments": {**arguments, key: WRONG[kind]}},
            )
        if schema.get("enum") and all(isinstance(value, str) for value in schema["enum"]):
            value = "-".join(schema["enum"]) + "-no"
            yield f"'{key}' outside its enum", {"name": name, "arguments": {**arguments, key: value}}


def look_alike(name: str) -> str:
    """Return a name that looks alike in most fonts and is another one.

    >>> look_alike("open_door") == "open_door"
    False
    """
    return name.translate(str.maketrans("aeopcx", "аеорсх"))


CHECKS = (
    AuditCheck(
        "runtime.tool_declaration_accuracy",
        "runtime",
        tool_declaration_accuracy,
        ("runtime.episode_determinism",),
    ),
)
