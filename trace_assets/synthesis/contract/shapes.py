"""The shapes of tool results and errors, inferred from what was seen."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from trace_assets.records import Json, Record, ToolCall, ToolSpec, Trajectory

MAX_ENUM = 60
"""Strings with at most this many distinct values are described by their values."""


class ResultShape(Record):
    """What one tool answers."""

    tool: str
    json_schema: Json
    """Schema of the answers that were no errors; `{}` when none was seen."""
    usual: str = ""
    """The answer that most calls got; empty where answers differ from call to call."""
    compact: bool = False
    """JSON is written without spaces after commas and colons."""
    errors: tuple[str, ...] = ()
    """Error texts with the call's arguments replaced by `{argument}`, the most frequent first."""
    n: int = 0
    n_errors: int = 0


def answered_calls(trajectory: Trajectory) -> Iterator[tuple[ToolCall, str, bool]]:
    """Yield every assistant's tool call of a trajectory with its answer and whether that was an error."""
    answers = {m.tool_call_id: m for m in trajectory.messages if m.role == "tool" and m.tool_call_id}
    for message in trajectory.messages:
        if message.role == "assistant" and message.requestor == "assistant":
            for call in message.tool_calls:
                answer = answers.get(call.id)
                if answer is not None:
                    yield call, answer.content or "", answer.is_error


def parsed(text: str) -> Any:
    """Return the JSON value of a text, or the text itself when it is not JSON.

    >>> parsed('{"ok": true}'), parsed("done")
    ({'ok': True}, 'done')
    """
    try:
        return json.loads(text)
    except ValueError:
        return text


def infer_schema(values: Sequence[Any]) -> dict[str, Any]:
    """Return a JSON schema that all the values satisfy, with `enum` for strings of few values.

    Args:
        values: JSON values, at least one.

    >>> infer_schema([{"n": 1}, {"n": 2, "s": "a"}])["required"]
    ['n']
    """
    kinds = sorted({_kind(value) for value in values})
    if kinds == ["object"]:
        names = list(dict.fromkeys(name for value in values for name in value))
        return {
            "type": "object",
            "properties": {
                name: infer_schema([value[name] for value in values if name in value]) for name in names
            },
            "required": [name for name in names if all(name in value for value in values)],
        }
    if kinds == ["array"]:
        items = [item for value in values for item in value]
        lengths = [len(value) for value in values]
        schema: dict[str, Any] = {"type": "array", "minItems": min(lengths), "maxItems": max(lengths)}
        return schema | ({"items": infer_schema(items)} if items else {})
    if kinds == ["string"]:
        counts = Counter(values)
        if len(counts) <= MAX_ENUM:
            return {"type": "string", "enum": sorted(counts)}
        return {"type": "string", "examples": sorted(counts)[:: max(1, len(counts) // MAX_ENUM)][:MAX_ENUM]}
    if set(kinds) <= {"integer", "number"}:
        return {"type": kinds[-1], "minimum": min(values), "maximum": max(values)}
    return {"type": kinds[0] if len(kinds) == 1 else kinds}


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if value is None:
        return "null"
    for kind, python in (("integer", int), ("number", float), ("string", str), ("array", list)):
        if isinstance(value, python):
            return kind
    return "object"


def masked(text: str, arguments: Json) -> str:
    """Replace the values of a call's arguments in a text by `{argument}`.

    >>> masked("no loan L-17", {"loan": "L-17"})
    'no loan {loan}'
    """
    for name, value in sorted(arguments.items(), key=lambda item: -len(str(item[1]))):
        if isinstance(value, str) and len(value) > 1:
            text = text.replace(value, "{" + name + "}")
    return text


def _usual(texts: Sequence[str]) -> str:
    text, n = max(Counter(texts).items(), key=lambda item: (item[1], item[0]), default=("", 0))
    return text if n > 1 and 2 * n > len(texts) else ""


def result_shapes(tools: Iterable[ToolSpec], trajectories: Sequence[Trajectory]) -> list[ResultShape]:
    """Return the shape of every tool's results and errors, in the tools' order."""
    seen: dict[str, list[str]] = {tool.name: [] for tool in tools}
    errors: dict[str, Counter[str]] = {name: Counter() for name in seen}
    for trajectory in trajectories:
        for call, answer, is_error in answered_calls(trajectory):
            if call.name not in seen:
                continue
            if is_error:
                errors[call.name][masked(answer, call.arguments)] += 1
            else:
                seen[call.name].append(answer)
    shapes = []
    for name, texts in seen.items():
        values = [parsed(text) for text in texts]
        common = sorted(errors[name].items(), key=lambda item: (-item[1], item[0]))
        shapes.append(
            ResultShape(
                tool=name,
                json_schema=infer_schema(values) if values else {},
                usual=_usual(texts),
                compact=bool(texts) and all('": ' not in text and '", ' not in text for text in texts),
                errors=tuple(text for text, _ in common[:5]),
                n=len(texts),
                n_errors=sum(errors[name].values()),
            )
        )
    return shapes
