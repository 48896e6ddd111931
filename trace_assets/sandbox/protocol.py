"""The strict reading of what a sandbox sends: one JSON value a line, and nothing JSON leaves open.

Everything on the other side is hostile. Whatever two readers could understand differently (repeated keys,
NaN, numbers past their type, lone surrogates, invalid UTF-8) is an error, and so is whatever costs more than
a reply is worth (length, depth, number of nodes).
"""

from __future__ import annotations

import json
import math
import re
from typing import Annotated, Any, Literal

import jsonschema
import msgspec
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from trace_assets.errors import InputError
from trace_assets.sandbox.errors import EnvironmentFault, ProtocolError

PROTOCOL_VERSION = 3
MAX_LINE = 1 << 20
"""Longest request or reply in bytes, its newline included."""
MAX_DEPTH = 32
MAX_NODES = 20_000
INT_MIN, INT_MAX = -(2**63), 2**63 - 1


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ProtocolError("the sandbox sent an object with a repeated key")
    return result


def _constant(name: str) -> Any:
    raise ProtocolError(f"the sandbox sent {name}, which is not JSON")


_decode = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant).decode
_read = msgspec.json.Decoder().decode
_write = msgspec.json.Encoder().encode
_long_number = re.compile(rb"[0-9]{19}").search
_MISSED = object()


def parse(line: bytes) -> Any:
    """Read one line (without its newline) or refuse it.

    Args:
        line: Raw bytes from the sandbox.

    Returns:
        The JSON value: dict, list, str, int, float, bool or None.

    Raises:
        ProtocolError: The line is not UTF-8, not JSON, or breaks one of the limits of this module.

    >>> parse(b'{"a": [1, 2.5, null]}')
    {'a': [1, 2.5, None]}
    >>> parse(b'[1e999]')
    Traceback (most recent call last):
    ...
    trace_assets.sandbox.errors.ProtocolError: the sandbox sent a number that is not finite
    """
    if len(line) >= MAX_LINE:
        raise ProtocolError(f"the sandbox sent a line of {len(line)} bytes, past the limit of {MAX_LINE}")
    value = _plain(line)
    return _strict(line) if value is _MISSED else value


def _plain(line: bytes) -> Any:
    """Read a line that leaves nothing open at a fifth of the cost; `_MISSED` leaves it to `_strict`.

    A line that is written back byte for byte from what was read has no repeated key, no number that is not
    finite, no broken text and no second spelling of anything; what is left to look at are its numbers and
    its size. Whatever is not so is not refused here: the strict reader decides and gives the reason.
    """
    try:
        value = _read(line)
        if _write(value) != line or _long_number(line):
            return _MISSED
    except (ValueError, RecursionError, OverflowError):
        return _MISSED
    opened = line.count(b"[") + line.count(b"{")
    if opened >= MAX_DEPTH or line.count(b",") + opened >= MAX_NODES:  # more than depth and nodes can be
        _check(value, escapes=False)
    return value


def _strict(line: bytes) -> Any:
    try:
        text = line.decode("utf-8", "strict")
        value = _decode(text)
    except UnicodeDecodeError as error:
        raise ProtocolError(f"the sandbox sent bytes that are not UTF-8, at byte {error.start}") from None
    except RecursionError:
        raise ProtocolError(f"the sandbox sent a value nested deeper than {MAX_DEPTH}") from None
    except ValueError as error:  # not JSON, or an integer of more digits than Python converts
        raise ProtocolError(f"the sandbox sent a line that is not JSON: {error}") from None
    _check(value, escapes="\\u" in text)
    return value


def _check(value: Any, escapes: bool) -> None:
    """Walk the value a level at a time; only an escape can smuggle in a lone surrogate."""
    level, depth, nodes = [value], 0, 0
    while level:
        depth += 1
        nodes += len(level)
        if depth > MAX_DEPTH:
            raise ProtocolError(f"the sandbox sent a value nested deeper than {MAX_DEPTH}")
        if nodes > MAX_NODES:
            raise ProtocolError(f"the sandbox sent a value of more than {MAX_NODES} nodes")
        below: list[Any] = []
        for node in level:
            kind = type(node)
            if kind is str:
                if escapes:
                    _whole(node)
            elif kind is dict:
                below.extend(node.values())
                if escapes:
                    for key in node:
                        _whole(key)
            elif kind is list:
                below.extend(node)
            elif kind is int:
                if not INT_MIN <= node <= INT_MAX:
                    raise ProtocolError("the sandbox sent an integer of more than 64 bits")
            elif kind is float and not math.isfinite(node):
                raise ProtocolError("the sandbox sent a number that is not finite")
        level = below


def _whole(text: str) -> None:
    try:
        text.encode("utf-8", "strict")
    except UnicodeEncodeError:
        raise ProtocolError("the sandbox sent text with a lone surrogate") from None


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def _plain_line(request: dict[str, Any]) -> bytes | None:
    """The same at a third of the cost, for a request that reads back as it was."""
    try:
        line = _write(request)
        return line + b"\n" if _read(line) == request else None
    except (ValueError, TypeError, RecursionError, OverflowError):
        return None


def encode(request: dict[str, Any]) -> bytes:
    """One request as a line.

    Raises:
        ValueError: The request holds NaN, text that UTF-8 cannot carry, what JSON cannot, or is too long.
    """
    line = _plain_line(request) or _encode(request).encode("utf-8", "strict") + b"\n"
    if len(line) > MAX_LINE:
        raise ValueError(f"it takes {len(line)} bytes, past the limit of {MAX_LINE}")
    return line


def open_reply(line: bytes, request_id: int) -> tuple[str, Any]:
    """Take a reply apart.

    Returns:
        `("ok", value)`, or the kind of failure and its message.

    Raises:
        ProtocolError: It is not a reply to this request.
    """
    reply = parse(line)
    if type(reply) is not dict or type(reply.get("id")) is not int or reply["id"] != request_id:
        raise ProtocolError(f"the sandbox sent something else than the reply to request {request_id}")
    if len(reply) == 2 and "ok" in reply:
        return "ok", reply["ok"]
    if len(reply) == 3 and type(reply.get("err")) is str and type(reply.get("msg")) is str:
        return reply["err"], reply["msg"]
    raise ProtocolError("the sandbox sent a reply that is neither a result nor an error")


# The shapes of what an environment's functions take and return, checked on the host.


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
