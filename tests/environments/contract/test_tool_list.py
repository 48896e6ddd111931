"""Tools as they are given in files, and as calls show them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trace_assets.environments.contract.description import inferred_tools, read_tools, tools_in
from trace_assets.errors import InputError
from trace_assets.records import Message, ToolCall, Trajectory

PARAMETERS = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
FUNCTION = {"name": "get_x", "description": "Reads x.", "parameters": PARAMETERS}


@pytest.mark.parametrize(
    "value",
    [
        [{"type": "function", "function": FUNCTION}],
        [FUNCTION],
        [{"name": "get_x", "description": "Reads x.", "inputSchema": PARAMETERS}],
        {"tools": [FUNCTION]},
        {"agent": [FUNCTION], "user": None},
    ],
)
def test_every_usual_form_is_read(value: Any) -> None:
    given = tools_in(value, "here")
    assert [(t.name, t.description, t.parameters) for t in given.agent] == [("get_x", "Reads x.", PARAMETERS)]
    assert given.user == ()


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([], "names no tool of the agent"),
        ({}, "holds no tools"),
        ("get_x", "holds no tools"),
        ({"agent": "get_x"}, "holds no tools"),
        ([3], "tool 0 has no name"),
        ([{"parameters": {}}], "has no name"),
        ([FUNCTION, FUNCTION], "'get_x' more than once"),
        ([{"name": "f", "parameters": {"type": "string"}}], "no JSON schema of an object"),
        ([{"name": "f", "parameters": [1]}], "no JSON schema of an object"),
        ([{"name": "f", "mutates": "perhaps"}], "'mutates' is not usable"),
        ([{"name": "f", "description": ["x"]}], "'description' is not usable"),
    ],
)
def test_malformed_tools_are_refused_in_one_sentence(value: Any, says: str) -> None:
    with pytest.raises(InputError) as caught:
        tools_in(value, "tools.json")
    assert says in str(caught.value)
    assert str(caught.value).startswith("tools.json")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["", "{", "\ud800x", "[" * 100_000, None])
def test_unreadable_files_are_refused(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "tools.json"
    if content is not None:
        file.write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(InputError, match=r"tools.json cannot be read \(.+\)"):
        read_tools(file)


def _calls(calls: list[tuple[str, dict[str, Any], bool]], by: str = "assistant") -> Trajectory:
    messages: list[Message] = []
    for number, (name, arguments, is_error) in enumerate(calls):
        call = ToolCall(id=f"c{number}", name=name, arguments=arguments)
        messages.append(Message(role=by, tool_calls=(call,), requestor=by))
        messages.append(
            Message(role="tool", content="{}", tool_call_id=call.id, is_error=is_error, requestor=by)
        )
    return Trajectory(
        trajectory_id="t", task_id="k", target="x", task_batch="b", policy="p", messages=tuple(messages)
    )


def test_tools_are_inferred_from_calls_that_were_answered() -> None:
    trajectory = _calls(
        [
            ("put", {"id": "a", "n": 1, "parts": [{"sku": "x"}]}, False),
            ("put", {"id": "b", "n": 2.5}, False),
            ("put", {"oops": True}, True),
            ("invented", {}, True),
        ]
    )
    (put,) = inferred_tools([trajectory])
    assert put.parameters["required"] == ["id", "n"]
    assert put.parameters["properties"] == {
        "id": {"type": "string"},
        "n": {"type": "number"},
        "parts": {
            "type": "array",
            "items": {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]},
        },
    }
    assert json.dumps(put.parameters)


def test_sides_are_kept_apart() -> None:
    trajectory = _calls([("look", {}, False)], by="user")
    assert inferred_tools([trajectory]) == []
    assert [tool.name for tool in inferred_tools([trajectory], "user")] == ["look"]
