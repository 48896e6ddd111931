"""The shapes of what an environment's functions take and return, checked on the host."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import jsonschema
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from trace_assets.errors import InputError
from trace_assets.sandbox.faults import EnvironmentFault

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}\Z")


class _Shape(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class _Call(_Shape):
    id: str
    name: str
    arguments: dict[str, Any]


class _Message(_Shape):
    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    name: str | None = None
    is_error: bool | None = None
    error: bool | None = None
    requestor: Literal["assistant", "user"] | None = None


class _Action(_Shape):
    role: Literal["assistant"]
    content: str | None = None
    tool_calls: list[_Call] | None = None


class _Step(_Shape):
    messages: list[_Message]
    done: bool
    truncated: bool


class _Check(_Shape):
    name: str
    kind: Literal["state", "action", "communicate", "judge", "milestone", "minefield", "protocol"]
    passed: bool | None
    score: float | None
    gates: bool
    detail: str


class _Verdict(_Shape):
    reward: Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
    success: bool
    checks: list[_Check]


class _Function(_Shape):
    name: str
    description: str = ""
    parameters: dict[str, Any]
    strict: bool | None = None


class _Tool(_Shape):
    type: Literal["function"]
    function: _Function


_MESSAGES: TypeAdapter[list[_Message]] = TypeAdapter(Annotated[list[_Message], Field(min_length=1)])
_ACTIONS: TypeAdapter[list[_Action]] = TypeAdapter(list[_Action])
_ACTION: TypeAdapter[_Action] = TypeAdapter(_Action)
_TOOLS: TypeAdapter[list[_Tool]] = TypeAdapter(list[_Tool])
_SHAPES: dict[str, TypeAdapter[Any]] = {
    "tools": _TOOLS,
    "reset": _MESSAGES,
    "oracle": _ACTIONS,
    "step": TypeAdapter(_Step),
    "verdict": TypeAdapter(_Verdict),
}


def _first(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in problem["loc"])
    return f"{place}: {problem['msg']}" if place else str(problem["msg"])


def check_result(op: str, value: Any) -> None:
    """Check what the environment's function `op` returned.

    Raises:
        EnvironmentFault: The shape is wrong; the message names the place.
    """
    try:
        _SHAPES[op].validate_python(value)
    except ValidationError as error:
        raise EnvironmentFault(
            f"the environment's {op}() returned the wrong shape: {_first(error)}"
        ) from None
    if op == "tools":
        _check_tools(value)
    if op == "verdict":
        _check_agreement(value["reward"], value["success"])


MIN_SUCCESS = 0.5
"""The least that a success earns: less says something else than success does."""


def _check_agreement(reward: float, success: bool) -> None:
    """Success and reward are two words for one thing, and some read the one and some the other."""
    if success and reward < MIN_SUCCESS:
        raise EnvironmentFault(
            f"success and reward contradict each other in the environment's verdict(): a success earns "
            f"{reward:.3g}, less than {MIN_SUCCESS:g}"
        )
    if reward >= 1.0 and not success:
        raise EnvironmentFault(
            "success and reward contradict each other in the environment's verdict(): the whole reward was "
            "paid for no success"
        )


MAX_SCHEMA_NODES = 5000
"""Values in the parameters of all tools: to check 20,000 takes the host seconds, past every deadline."""


def _nodes(value: Any) -> int:
    below = value.values() if type(value) is dict else value if type(value) is list else ()
    return 1 + sum(map(_nodes, below))


def _check_tools(tools: list[dict[str, Any]]) -> None:
    size = sum(_nodes(tool["function"]["parameters"]) for tool in tools)
    if size > MAX_SCHEMA_NODES:
        raise EnvironmentFault(
            f"the environment's tools() declares parameters of {size} values, more than {MAX_SCHEMA_NODES}"
        )
    seen: set[str] = set()
    for tool in tools:
        name = tool["function"]["name"]
        if not _NAME.match(name) or name in seen:
            raise EnvironmentFault(
                f"the environment's tools() declares a bad or repeated name: {name[:80]!r}"
            )
        seen.add(name)
        try:
            jsonschema.Draft202012Validator.check_schema(tool["function"]["parameters"])
        except jsonschema.SchemaError as error:
            raise EnvironmentFault(
                f"the parameters of the environment's tool {name} are no JSON schema: {error.message[:200]}"
            ) from None


def check_action(message: Any) -> None:
    """Check the assistant message that is about to be played.

    Raises:
        InputError: It is not one assistant message of text or tool calls.
    """
    try:
        _ACTION.validate_python(message)
    except ValidationError as error:
        raise InputError(
            f"not an assistant message that an environment can be given: {_first(error)}"
        ) from None
