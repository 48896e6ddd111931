"""Which tools there are: as they were given, or as calls show them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trace_assets.diagnosis.detectors.mutation import READING
from trace_assets.diagnosis.detectors.wording import spoken
from trace_assets.errors import InputError
from trace_assets.records import Record, ToolSpec, Trajectory
from trace_assets.synthesis.contract.answers import Side, answered_calls, paired
from trace_assets.synthesis.contract.json_schema import infer_schema

_FORMS = (
    "a list of OpenAI functions, of MCP tools or of objects with 'name' and 'parameters', or an object that "
    "holds such lists as 'agent' and 'user', or one as 'tools'"
)


class GivenTools(Record):
    """Tools as a person or a file names them."""

    agent: tuple[ToolSpec, ...] = ()
    user: tuple[ToolSpec, ...] = ()
    """Tools of the simulated user."""


def read_tools(path: Path) -> GivenTools:
    """Read a file of tool schemas.

    Raises:
        InputError: It cannot be read or holds no tools.
    """
    try:
        return tools_in(json.loads(path.read_text(encoding="utf-8")), str(path))
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0] or type(error).__name__
        raise InputError(f"the tools in {path} cannot be read ({reason}); name a file of JSON.") from error


def tools_in(value: Any, where: str) -> GivenTools:
    """Return the tools of a JSON value.

    Args:
        value: A list of OpenAI functions, of MCP tools or of plain objects; or an object that holds such
            lists as `agent` and `user`, or one as `tools`.
        where: What to call it in messages.

    Raises:
        InputError: It is none of these, a tool is malformed, or two have one name.
    """
    if isinstance(value, Mapping):
        if "tools" in value:
            return tools_in(value["tools"], where)
        lists = {side: value[side] for side in ("agent", "user") if value.get(side) is not None}
    else:
        lists = {"agent": value}
    if not lists or not all(isinstance(one, list) for one in lists.values()):
        raise InputError(f"{where} holds no tools: expected {_FORMS}.")
    given = GivenTools(**{side: tuple(_tools(one, where)) for side, one in lists.items()})
    if not given.agent:
        raise InputError(f"{where} names no tool of the agent; expected {_FORMS}.")
    return given


def _tools(listed: Sequence[Any], where: str) -> list[ToolSpec]:
    tools = [_tool(one, f"{where}, tool {number}") for number, one in enumerate(listed)]
    names = [tool.name for tool in tools]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise InputError(f"{where} names the tool '{doubled[0]}' more than once; leave one of them out.")
    return tools


def _tool(one: Any, where: str) -> ToolSpec:
    function = one.get("function", one) if isinstance(one, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str) or not function["name"]:
        raise InputError(f"{where} has no name; a tool is an object with 'name' and 'parameters'.")
    parameters = function.get("parameters", function.get("inputSchema", {}))
    if not isinstance(parameters, Mapping) or parameters.get("type", "object") != "object":
        raise InputError(
            f"{where} ('{function['name']}') has parameters that are no JSON schema of an object."
        )
    try:
        return ToolSpec(
            name=function["name"],
            description=function.get("description") or "",
            parameters=dict(parameters),
            mutates=function.get("mutates"),
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{where}: '{first['loc'][0]}' is not usable ({first['msg']}).") from error


def inferred_tools(trajectories: Sequence[Trajectory], by: Side = "assistant") -> list[ToolSpec]:
    """Return the tools that one side called, with parameters as the calls have them, by name.

    A name whose every call was answered by an error is left out: agents invent tools.
    """
    arguments: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for trajectory in trajectories:
        answered = {call.id: is_error for call, _, is_error in answered_calls(trajectory, by)}
        for call, _ in paired(trajectory, by):
            if not answered.get(call.id, False):
                arguments[call.name].append(call.arguments)
    return [
        ToolSpec(name=name, parameters=_parameters(infer_schema(seen)))
        for name, seen in sorted(arguments.items())
    ]


def _parameters(schema: dict[str, Any]) -> dict[str, Any]:
    """Drop what is true of the arguments that were seen, but no rule: values, sizes, ranges."""
    kept: dict[str, Any] = {key: schema[key] for key in ["type", "format"] if key in schema}
    if "items" in schema:
        kept["items"] = _parameters(schema["items"])
    if "additionalProperties" in schema:
        kept["additionalProperties"] = _parameters(schema["additionalProperties"])
    if "properties" in schema:
        kept["properties"] = {name: _parameters(one) for name, one in sorted(schema["properties"].items())}
        kept["required"] = sorted(schema["required"])
    return kept


def mutation_marked(tools: Sequence[ToolSpec]) -> list[ToolSpec]:
    """Return the tools with `mutates` filled in by name where the target does not say.

    >>> [t.mutates for t in mutation_marked([ToolSpec(name="get_loan"), ToolSpec(name="renew_loan")])]
    [False, True]
    """
    return [
        tool
        if tool.mutates is not None
        else tool.model_copy(update={"mutates": not set(spoken(tool.name).split()[:1]) & READING})
        for tool in tools
    ]
