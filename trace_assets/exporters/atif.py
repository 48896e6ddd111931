"""ATIF, the Agent Trajectory Interchange Format: JSON lines of one document each.

An agent's message becomes a step, the results of its tools that follow become its observation. A message
that ATIF has no step for (a simulated user's own tool, a result nobody asked for) becomes a step whose
`extra` says what it is, so that the importer gives back the same messages. The verdict goes to `extra`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trace_assets.records import Message, Trajectory

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
