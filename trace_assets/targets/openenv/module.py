"""An OpenEnv server as a target: run by `targets/process/serve.py` in an interpreter that has openenv.

Two kinds of servers are understood, told apart by the schema of their actions: those whose action is one
assistant message (`content`, `tool_calls`; what `trace environment export --format openenv` writes), and
those whose action is one call of a tool (`type`, `tool_name`, `arguments`; OpenEnv's MCP environments).

Every episode is a session of its own on the server. What the connection breaks is the infrastructure's fault;
what the server's environment raises is the environment's.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.error import URLError

SPLITS = ("discovery", "validation", "test")
CAPACITY_SECONDS = 20.0
"""For how long a server that has no session left is asked again."""
OPTIONS = {"name", "url", "tasks", "seeds", "instruction", "success_at", "timeout_seconds"}


class ServerGone(Exception):
    """The server cannot be reached, or has no session for us."""

    fault = "infrastructure"


class WrongOption(Exception):
    """An option is not usable."""

    fault = "input"


class _Now:
    """This process's settings and the episode that it plays."""

    options: dict[str, Any] = {}
    form = ""
    can_judge = False
    client: Any = None
    tools: list[dict[str, Any]] = []
    done = False
    reward: float | None = None
    verdict: dict[str, Any] | None = None


def describe(options: dict[str, Any]) -> dict[str, Any]:
    """Look at the server. The version covers what it says of itself, its tools and the tasks."""
    unknown = set(options) - OPTIONS
    if unknown or not options.get("url"):
        raise WrongOption(
            "unknown option " + ", ".join(sorted(unknown))
            if unknown
            else "set targets.options.url to a running OpenEnv server, such as http://127.0.0.1:8000"
        )
    if find_spec("openenv") is None:
        raise WrongOption(
            "openenv is not installed in " + sys.executable + "; install it there, or name an interpreter "
            "that has it in targets.python"
        )
    _Now.options = options
    rows = tasks()
    about, schema = _get("/metadata"), _get("/schema")
    actions = schema.get("action", {}).get("properties", {})
    _Now.form = "messages" if "tool_calls" in actions else "calls" if "tool_name" in actions else ""
    if not _Now.form:
        raise WrongOption(
            "the server's actions (" + ", ".join(sorted(actions)) + ") are neither assistant messages nor "
            "tool calls; write a module of your own (trace targets new NAME)"
        )
    _Now.can_judge = "judge" in actions
    first = next((row for split in SPLITS for row in rows[split]), None)
    if first is None:
        raise WrongOption("there is no task; set targets.options.tasks or targets.options.seeds")
    reset({**first["payload"], "id": first["id"]}, 0)
    _leave()
    decides = {name: value for name, value in options.items() if name not in ("url", "timeout_seconds")}
    parts = [Path(__file__).read_text(encoding="utf-8"), about, schema, _Now.tools, rows, decides]
    text = json.dumps(parts, sort_keys=True)
    return {
        "name": options.get("name", "openenv"),
        "version": hashlib.sha256(text.encode()).hexdigest()[:16],
        "policy": str(options.get("instruction") or about.get("description") or ""),
        "tools": list(_Now.tools),
        "provenance": {
            "openenv_environment": str(about.get("name") or ""),
            "openenv_version": str(about.get("version") or ""),
        },
    }


def _get(path: str) -> dict[str, Any]:
    address = _Now.options["url"].rstrip("/").replace("ws://", "http://").replace("wss://", "https://")
    try:
        with urllib.request.urlopen(address + path, timeout=_seconds()) as answer:
            found = json.load(answer)
    except (URLError, OSError) as error:
        raise ServerGone(f"no OpenEnv server answers at {address}{path} ({error})") from error
    return found if isinstance(found, dict) else {}


def _seconds() -> float:
    return float(_Now.options.get("timeout_seconds", 30.0))


def tasks() -> dict[str, list[dict[str, Any]]]:
    """Tasks of the file `tasks`, or one a seed of the half-open ranges `seeds`."""
    options = _Now.options
    if options.get("tasks"):
        try:
            told = json.loads(Path(options["tasks"]).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise WrongOption(f"the tasks file {options['tasks']} cannot be read ({error})") from error
    else:
        seeds = options.get("seeds", {})
        if not isinstance(seeds, dict) or not all(_is_range(bounds) for bounds in seeds.values()):
            raise WrongOption(
                "targets.options.seeds must give each split its first seed and the first not taken, such as "
                "{discovery = [0, 400], test = [1000, 1400]}"
            )
        told = {
            split: [{"id": f"seed-{seed}", "seed": seed} for seed in range(*bounds)]
            for split, bounds in seeds.items()
        }
    found: dict[str, list[dict[str, Any]]] = {}
    for split in SPLITS:
        found[split] = []
        for row in told.get(split, ()):
            arguments = (
                {"seed": row["seed"], **row.get("reset", {})} if "seed" in row else row.get("reset", {})
            )
            said = str(row.get("instruction") or options.get("instruction") or "")
            payload = {"reset": arguments, "instruction": said}
            found[split].append(
                {"id": str(row["id"]), "instruction": said, "tags": row.get("tags", []), "payload": payload}
            )
    return found


def _is_range(bounds: Any) -> bool:
    whole = isinstance(bounds, list) and len(bounds) == 2
    return whole and all(isinstance(one, int) for one in bounds)


def reset(task: dict[str, Any], seed: int) -> dict[str, Any]:
    """Begin a session. The task says its seed; where it has none, the trial's is sent."""
    _leave()
    _Now.done, _Now.reward, _Now.verdict = False, None, None
    until = time.monotonic() + CAPACITY_SECONDS
    while True:
        try:
            _connect()
            told = _told(lambda: _Now.client.reset(**{"seed": seed, **task["reset"]}))
            break
        except NoSession:
            _leave()
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
    if _Now.form == "messages":
        _Now.tools = told.get("tools") or _Now.tools
        return {"messages": _messages(told), "tools": list(_Now.tools)}
    listed = _told(lambda: _Now.client.step({"type": "list_tools"}), counts=False)
    _Now.tools = [
        {
            "name": tool["name"],
            "description": tool.get("description") or "",
            "parameters": tool.get("input_schema") or tool.get("inputSchema") or {},
        }
        for tool in listed.get("tools", ())
    ]
    seen = {
        name: value for name, value in told.items() if name != "metadata" and value not in (None, "", [], {})
    }
    words = [task.get("instruction", ""), json.dumps(seen, ensure_ascii=False) if seen else ""]
    content = "\n\n".join(word for word in words if word) or "Begin."
    return {"messages": [{"role": "user", "content": content}], "tools": list(_Now.tools)}


class NoSession(ServerGone):
    """All sessions of the server are taken."""


def _connect() -> None:
    from openenv.core.generic_client import GenericEnvClient

    try:
        client = GenericEnvClient(
            base_url=_Now.options["url"], connect_timeout_s=_seconds(), message_timeout_s=_seconds()
        ).sync()
        _Now.client = client
        client.connect()
    except (OSError, TimeoutError) as error:
        raise ServerGone(f"no OpenEnv server answers at {_Now.options['url']} ({error})") from error


def _leave() -> None:
    client, _Now.client = _Now.client, None
    if client is not None:
        with suppress(Exception):  # the session is over either way
            client.close()


def _told(work: Callable[[], Any], counts: bool = True) -> dict[str, Any]:
    """Return the observation that a request brings; keep its reward and whether it ends the episode."""
    from websockets.exceptions import WebSocketException

    try:
        result = work()
    except (OSError, WebSocketException) as error:
        raise ServerGone(f"the OpenEnv server is gone ({type(error).__name__}: {error})") from error
    except TimeoutError as error:
        raise ServerGone(f"the OpenEnv server did not answer in {_seconds():g} s") from error
    except RuntimeError as error:  # what the client makes of an error message
        if "CAPACITY_REACHED" in str(error):
            raise NoSession(str(error)) from error
        if "SESSION_ERROR" in str(error) or "FACTORY_ERROR" in str(error):
            raise ServerGone(str(error)) from error
        raise
    if counts:
        _Now.done = bool(result.done)
        if result.reward is not None:
            _Now.reward = float(result.reward)
    observation = result.observation
    return observation if isinstance(observation, dict) else {}


def _messages(told: dict[str, Any]) -> list[dict[str, Any]]:
    """Return an observation's messages with the fields that the host knows."""
    fields = ("role", "content", "tool_calls", "tool_call_id", "tool_name", "is_error")
    return [
        {name: message[name] for name in fields if message.get(name) is not None}
        for message in told.get("messages", ())
    ]


def step(message: dict[str, Any]) -> dict[str, Any]:
    """Play one assistant message."""
    calls = message.get("tool_calls") or []
    if _Now.form == "messages":
        action = {"content": message.get("content"), "tool_calls": calls}
        told = _told(lambda: _Now.client.step(action))
        truncated = bool(told.get("truncated"))
        _Now.verdict = told.get("verdict") or _Now.verdict
        return {"messages": _messages(told), "done": _Now.done and not truncated, "truncated": truncated}
    answers = []
    for call in calls:
        answers.append(_answer(call))
        if _Now.done:
            break
    return {"messages": answers, "done": _Now.done or not calls, "truncated": False}


def _answer(call: dict[str, Any]) -> dict[str, Any]:
    """Make one call. What the agent got wrong is an error message for it."""
    known = {tool["name"] for tool in _Now.tools}
    if call["name"] in known:
        action = {"type": "call_tool", "tool_name": call["name"], "arguments": call.get("arguments") or {}}
        told = _told(lambda: _Now.client.step(action))
        error = told.get("error")
        result = error if error else told.get("result")
    else:
        error = result = {"error": "there is no tool " + call["name"]}
    failed = bool(error) or (
        isinstance(result, dict) and bool(result.get("is_error") or result.get("isError"))
    )
    if isinstance(result, dict) and "data" in result:  # FastMCP's envelope
        result = result["data"]
    return {
        "role": "tool",
        "tool_call_id": call["id"],
        "tool_name": call["name"],
        "content": result if isinstance(result, str) else json.dumps(result, ensure_ascii=False),
        "is_error": failed,
    }


def verdict() -> dict[str, Any]:
    """Give the server's own verdict, or its last reward; then leave the session to others."""
    if _Now.can_judge and not _Now.done and _Now.client is not None:
        _Now.verdict = _told(lambda: _Now.client.step({"judge": True})).get("verdict") or _Now.verdict
    _leave()
    if _Now.verdict:
        fields = ("reward", "success", "checks")
        return {name: _Now.verdict[name] for name in fields if name in _Now.verdict}
    reward = _Now.reward
    if reward is None:  # never told: not judged, which is not the same as a reward of 0
        return {"reward": None, "success": None, "checks": []}
    if not math.isfinite(reward):
        raise ValueError(f"the server's reward is {reward}")
    return {"reward": reward, "success": reward >= float(_Now.options.get("success_at", 1.0)), "checks": []}


def close() -> None:
    """End the session."""
    _leave()
