"""Trajectories in the Agent Trajectory Interchange Format (ATIF): a file, or JSON lines, of one each.

A step of the agent becomes an assistant message followed by one tool message for each observation. ATIF has
no place for how an episode was judged: `extra` is looked at (`reward`, `success`, `task_id`, ...), as this
project and Harbor's tools write it, and beside Harbor's `agent/trajectory.json` its trial's `result.json`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from trace_assets.formats.batch_files import batch_of
from trace_assets.formats.fields import dict_of
from trace_assets.formats.openai_chat import first_row, read_conversation, read_rows
from trace_assets.formats.problem import UNUSABLE, Problem, Reading
from trace_assets.records import Message, Task, Trajectory
from trace_assets.untrusted.allowance import BOM, OF_MACHINE, Allowance, TooLarge, open_lines
from trace_assets.untrusted.json_text import longest, read_json, too_long

_ROLES: Mapping[str, str] = {"system": "system", "user": "user", "agent": "assistant"}
_HEAD = 1 << 16
_VERDICT = 1 << 24
"""Bytes of a trial's verdict that are read at most."""


class AtifImporter:
    """Reads ATIF-v1 trajectories."""

    name = "atif"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Tell whether the file begins with an ATIF document."""
        if head.lstrip()[:1] != b"{" or b"ATIF-v" not in head:
            return False
        row = first_row(head)
        named = row.get("schema_version") if row else None
        return b'"schema_version"' in head if row is None else str(named).startswith("ATIF-v")

    def read(self, path: Path, allowance: Allowance = OF_MACHINE) -> Iterator[Task | Trajectory | Problem]:
        """Yield the trajectories, each task once; embedded ones of subagents follow their parent."""
        reading = Reading(path)
        for row in _documents(path, allowance):
            if isinstance(row, Problem):
                yield row
                continue
            number, document = row
            position = f"line {number}" if number else ""
            try:
                trajectory, notice = _trajectory(path, number, document)
            except UNUSABLE as error:
                yield reading.left_out(error, position, "it")
                continue
            yield from reading.told(trajectory, notice, position)


def _documents(path: Path, allowance: Allowance) -> Iterator[tuple[int, dict[str, Any]] | Problem]:
    """Yield (line, document); a file that is one document has line 0."""
    most = longest(allowance.row)
    with open_lines(path) as stream:
        first = stream.readline(most).removeprefix(BOM).strip()
    try:
        lines = isinstance(read_json(first, allowance.row), dict)
    except ValueError:
        lines = False
    del first
    size = path.stat().st_size
    if lines or _several(path):
        yield from read_rows(path, allowance)
        return
    try:
        if size > most:
            raise too_long(size, allowance.row)
        document = read_json(path.read_bytes(), allowance.row)
        if not isinstance(document, dict):
            raise ValueError(f"it is a JSON {type(document).__name__}, not an object")
    except TooLarge as error:
        message = f"{error}; write one trajectory a line"
        yield Problem(path=str(path), message=message, kind="too_large")
    except ValueError as error:
        message = f"the file breaks off or is damaged ({error}); nothing can be read"
        yield Problem(path=str(path), message=message, kind="broken_off")
    else:
        yield 0, document


def _several(path: Path) -> bool:
    """Tell whether a file that does not begin with a whole line of JSON has one further on."""
    with open_lines(path) as stream:
        row = first_row(stream.read(_HEAD))
    return row is not None and "schema_version" in row


def _trajectory(path: Path, number: int, document: Mapping[str, Any]) -> tuple[Trajectory, str]:
    steps = document.get("steps")
    if not str(document.get("schema_version", "")).startswith("ATIF-v1") or not isinstance(steps, list):
        raise ValueError("there is no 'schema_version' ATIF-v1.x with a list 'steps'")
    agent = document.get("agent") if isinstance(document.get("agent"), dict) else {}
    assert isinstance(agent, dict)
    extra = document.get("extra") if isinstance(document.get("extra"), dict) else {}
    assert isinstance(extra, dict)
    total = document.get("final_metrics") or {}
    identity = document.get("trajectory_id") or _whole_id(document, path)
    row = {
        **extra,
        **_beside(path),
        "trajectory_id": identity,
        "messages": list(_messages(steps)),
        "model": extra.get("model") or agent.get("model_name") or agent.get("name"),
        "usage": {
            "prompt_tokens": total.get("total_prompt_tokens", _sum(steps, "prompt_tokens")),
            "completion_tokens": total.get("total_completion_tokens", _sum(steps, "completion_tokens")),
        },
        "cost_usd": total.get("total_cost_usd", _sum(steps, "cost_usd")),
        "date": next((step["timestamp"] for step in steps if step.get("timestamp")), None),
        "target": extra.get("target") or f"atif:{batch_of(path)}",
        "tools": extra.get("tools") or agent.get("tool_definitions"),
    }
    trajectory, notice = read_conversation(path, number, row)
    said = tuple(
        message.model_copy(update={"requestor": message.metadata["requestor"]})
        if message.metadata.get("requestor") == "user"
        else message
        for message in trajectory.messages
    )
    about = {key: document[key] for key in ("notes", "continued_trajectory_ref") if document.get(key)}
    return trajectory.model_copy(
        update={
            "source": f"atif:{path.name}",
            "source_id": document.get("session_id"),
            "agent": trajectory.agent or _text(agent.get("name")),
            "agent_args": {
                **({"version": agent["version"]} if agent.get("version") else {}),
                **dict_of(agent.get("extra")),
            },
            "metadata": {**trajectory.metadata, **about},
            "messages": said,
        }
    ), notice


def _messages(steps: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield the messages of the steps in the chat form."""
    for number, step in enumerate(steps, 1):
        if not isinstance(step, dict) or step.get("source") not in _ROLES:
            raise ValueError(f"step {number} has no 'source' system, user or agent")
        extra = dict_of(step.get("extra"))
        calls = step.get("tool_calls") or []
        said = step.get("message")
        yield {
            "role": "tool" if "tool" in extra else _ROLES[step["source"]],
            "content": None if extra.get("no_content") else said,
            "tool_calls": [
                {"id": one["tool_call_id"], "name": one["function_name"], "arguments": one.get("arguments")}
                for one in calls
            ]
            or extra.get("tool_calls"),
            "reasoning": step.get("reasoning_content"),
            "requestor": extra.get("requestor"),
            **dict_of(extra.get("tool")),
            "metadata": dict_of(extra.get("metadata")),
        }
        for result in (step.get("observation") or {}).get("results") or []:
            about = dict_of(result.get("extra"))
            yield {
                "role": "tool",
                "tool_call_id": result.get("source_call_id")
                or (calls[-1]["tool_call_id"] if calls else None),
                "content": result.get("content"),
                "is_error": about.get("is_error", False),
                "name": about.get("tool_name"),
                "requestor": about.get("requestor"),
                "metadata": dict_of(about.get("metadata")),
            }


def _whole_id(document: Mapping[str, Any], path: Path) -> str:
    """Return a name: sessions may be shared by several documents, so the file's place is added."""
    return "/".join(str(part) for part in (document.get("session_id"), path.parent.name, path.stem) if part)


def _beside(path: Path) -> dict[str, Any]:
    """Return the verdict of a Harbor trial, which lies one folder above its `agent/trajectory.json`."""
    result = path.parent.parent / "result.json"
    if path.parent.name != "agent" or not result.is_file():
        return {}
    try:
        with result.open("rb") as stream:
            trial = read_json(stream.read(_VERDICT), _VERDICT * 100)
    except (ValueError, OSError):
        return {}
    verdict = dict_of(dict_of(trial).get("verifier_result"))
    rewards = dict_of(verdict.get("rewards"))
    found = {
        "reward": rewards.get("reward", next(iter(rewards.values()), None)),
        "scores": rewards or None,
        "task_id": dict_of(trial).get("task_name"),
        "error": dict_of(dict_of(trial).get("exception_info")).get("exception_message"),
    }
    return {key: value for key, value in found.items() if value is not None}


def _sum(steps: list[Any], name: str) -> float | None:
    values = [dict_of(step.get("metrics")).get(name) for step in steps if isinstance(step, dict)]
    numbers = [value for value in values if isinstance(value, int | float)]
    return sum(numbers) if numbers else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


# ATIF, the Agent Trajectory Interchange Format: JSON lines of one document each.


VERSION = "ATIF-v1.7"


def write_atif(path: Path, trajectories: Iterable[Trajectory]) -> tuple[int, int]:
    """Write documents, one a line; return how many, and how many had no message and were left out."""
    written = left = 0
    with path.open("w", encoding="utf-8") as stream:
        for one in trajectories:
            if not one.messages:
                left += 1
                continue
            stream.write(json.dumps(atif_document(one), ensure_ascii=False) + "\n")
            written += 1
    return written, left


def atif_document(one: Trajectory) -> dict[str, Any]:
    """Return a trajectory with at least one message as an ATIF document."""
    arguments = dict(one.agent_args)
    agent = {
        "name": one.agent or one.policy,
        "version": str(arguments.pop("version", "unknown")),
        "model_name": one.policy,
        "extra": arguments or None,
    }
    steps = _steps(one.messages)
    if one.date and _is_time(one.date):
        steps[0]["timestamp"] = one.date
    extra = {
        "target": one.target,
        "task_id": one.task_id,
        "trial": one.trial,
        "seed": one.seed,
        "reward": one.reward,
        "success": one.success,
        "stop": one.stop,
        "error": one.error,
        "limit": one.limit,
        "seconds": one.seconds,
        "adapter": one.adapter,
        "user_policy": one.user_policy,
        "checks": [check.model_dump(mode="json") for check in one.checks] or None,
        "metadata": one.metadata or None,
    }
    metrics = {
        "total_prompt_tokens": one.prompt_tokens,
        "total_completion_tokens": one.completion_tokens,
        "total_cost_usd": one.cost_usd,
        "total_steps": len(steps),
    }
    return _without_none(
        {
            "schema_version": VERSION,
            "session_id": one.source_id or one.trajectory_id,
            "trajectory_id": one.trajectory_id,
            "agent": _without_none(agent),
            "steps": steps,
            "final_metrics": _without_none(metrics),
            "extra": _without_none(extra),
        }
    )


def _steps(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    asked: set[str | None] = set()
    for message in messages:
        if message.role == "tool" and message.tool_call_id in asked:
            steps[-1].setdefault("observation", {"results": []})["results"].append(_result(message))
            continue
        asked = {call.id for call in message.tool_calls} if message.role == "assistant" else set()
        steps.append({"step_id": len(steps) + 1, **_step(message)})
    return steps


def _step(message: Message) -> dict[str, Any]:
    metadata = dict(message.metadata)
    step: dict[str, Any] = {
        "source": {"assistant": "agent", "user": "user"}.get(message.role, "system"),
        "message": message.content or "",
    }
    calls = [
        {"tool_call_id": call.id, "function_name": call.name, "arguments": call.arguments}
        for call in message.tool_calls
    ]
    extra: dict[str, Any] = {}
    if message.role == "assistant":
        step["tool_calls"] = calls or None
        if isinstance(metadata.get("reasoning"), str):
            step["reasoning_content"] = metadata.pop("reasoning")
    elif calls:
        extra["tool_calls"] = calls
    if message.role == "tool":
        extra["tool"] = {
            "tool_call_id": message.tool_call_id,
            "name": message.tool_name,
            "is_error": message.is_error,
        }
    extra |= _about(message, metadata)
    if message.content is None:
        extra["no_content"] = True
    return _without_none({**step, "extra": extra or None})


def _result(message: Message) -> dict[str, Any]:
    extra = {"tool_name": message.tool_name, **_about(message, message.metadata)}
    if message.is_error:
        extra["is_error"] = True
    return _without_none(
        {"source_call_id": message.tool_call_id, "content": message.content, "extra": _without_none(extra)}
    )


def _about(message: Message, metadata: dict[str, Any]) -> dict[str, Any]:
    about: dict[str, Any] = {"requestor": "user"} if message.requestor == "user" else {}
    return about | ({"metadata": metadata} if metadata else {})


def _is_time(text: str) -> bool:
    from datetime import datetime

    try:
        datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return False
    return True


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
