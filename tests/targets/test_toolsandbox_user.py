"""What the server behind ToolSandbox's simulated user may do; ToolSandbox itself is not needed for it."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from tests.answering import Answer, InTurn, completion, failure


@pytest.fixture
def users(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module, with classes of ToolSandbox that do nothing."""
    plain = {name: type(name, (), {}) for name in ("RoleType", "Message", "BaseRole", "OpenAIAPIUser")}
    for name in (
        "tool_sandbox",
        "tool_sandbox.common",
        "tool_sandbox.common.execution_context",
        "tool_sandbox.common.message_conversion",
        "tool_sandbox.roles",
        "tool_sandbox.roles.base_role",
        "tool_sandbox.roles.openai_api_user",
    ):
        stub = ModuleType(name)
        stub.__dict__.update(plain)
        monkeypatch.setitem(sys.modules, name, stub)
    plain["RoleType"].USER = plain["RoleType"].AGENT = ""  # type: ignore[attr-defined]
    name = "trace_assets.targets.toolsandbox.toolsandbox_users"
    monkeypatch.delitem(sys.modules, name, raising=False)
    import importlib

    module = importlib.import_module(name)
    monkeypatch.setattr(module.time, "sleep", lambda seconds: None)
    yield module
    sys.modules.pop(name, None)


def ask(users: ModuleType, *answers: Answer) -> tuple[Any, InTurn]:
    with InTurn(*answers) as server:
        user = users.ModelUser({"user_model": "m", "user_base_url": server.v1, "user_seconds": 6.0}, 3)
        try:
            return user.model_inference([], None).choices[0].message.content, server
        except (users.UserFailed, users.ServerGone) as error:
            return error, server


def test_a_passing_fault_is_sat_out(users: ModuleType) -> None:
    said, server = ask(users, failure(500), (200, {}, "half {"), completion("hello"))
    assert said == "hello" and len(server.requests) == 3


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ((200, {}, {"error": {"message": "overloaded"}, **completion("half")[2]}), "infrastructure"),
        ((200, {}, {"choices": completion("a")[2]["choices"] * 2}), "user"),
        ((200, {}, {"choices": []}), "user"),
        ((200, {}, []), "user"),
        ((200, {}, "[" * 100_000), "infrastructure"),
        ((200, {}, " " * (33 << 20)), "infrastructure"),
        (completion(" "), "user"),
    ],
    ids=["error", "two choices", "none", "a list", "deep", "long", "silent"],
)
def test_what_is_no_answer_is_a_fault(users: ModuleType, answer: Answer, fault: str) -> None:
    said, _ = ask(users, answer)
    assert said.fault == fault


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_conversation_and_no_key_goes_elsewhere(
    users: ModuleType, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-secret-of-mine")
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.setblocking(False)
        elsewhere = f"http://127.0.0.1:{other.getsockname()[1]}/v1"
        said, _ = ask(users, (status, {"Location": elsewhere}, json.dumps({})))
        with pytest.raises(BlockingIOError):  # nobody came
            other.accept()
    assert said.fault == "infrastructure"
