"""Parquet as Inspect Scout's transcript database has it: a row a transcript, `messages` as JSON text.

A folder with such a file is a database: `inspect_scout.transcripts_from("folder")`. The view `transcripts`
gives the same columns in SQL.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from trace_assets.formats.parquet import write_rows
from trace_assets.records import Message, Trajectory

_TEXT, _WHOLE, _FLOAT = pa.large_string(), pa.int64(), pa.float64()
SCHEMA = pa.schema(
    {
        "transcript_id": _TEXT,
        "source_type": _TEXT,
        "source_id": _TEXT,
        "source_uri": _TEXT,
        "date": _TEXT,
        "task_set": _TEXT,
        "task_id": _TEXT,
        "task_repeat": _WHOLE,
        "agent": _TEXT,
        "agent_args": _TEXT,
        "model": _TEXT,
        "model_options": _TEXT,
        "score": _TEXT,
        "success": pa.bool_(),
        "message_count": _WHOLE,
        "total_time": _FLOAT,
        "total_tokens": _WHOLE,
        "error": _TEXT,
        "limit": _TEXT,
        "messages": _TEXT,
        "events": _TEXT,
        "task_batch": _TEXT,
        "split": _TEXT,
        "seed": _WHOLE,
        "stop": _TEXT,
        "fault": _TEXT,
        "adapter": _TEXT,
        "user_policy": _TEXT,
        "cost_usd": _FLOAT,
        "metadata_json": _TEXT,
    }
)
"""Scout's columns under its names and types, then ours, which it shows as metadata."""


def write_scout(path: Path, trajectories: Iterable[Trajectory]) -> tuple[int, int]:
    """Write transcripts; return how many, and that none was left out."""
    return write_rows(path, (scout_row(one) for one in trajectories), SCHEMA), 0


def scout_row(one: Trajectory) -> dict[str, Any]:
    """Return a trajectory as a row of a transcript database."""
    spent = [count for count in (one.prompt_tokens, one.completion_tokens) if count is not None]
    return {
        "transcript_id": one.trajectory_id,
        "source_type": one.source.partition(":")[0],
        "source_id": one.source_id or one.task_batch,
        "source_uri": one.source_uri,
        "date": one.date,
        "task_set": one.target,
        "task_id": one.task_id,
        "task_repeat": one.trial,
        "agent": one.agent,
        "agent_args": json.dumps(one.agent_args),
        "model": one.policy,
        "model_options": json.dumps(one.model_options),
        "score": None if one.reward is None else json.dumps(one.reward),
        "success": one.success,
        "message_count": one.n_messages,
        "total_time": one.seconds,
        "total_tokens": sum(spent) if spent else None,
        "error": one.error,
        "limit": one.limit,
        "messages": json.dumps(
            [_message(message, f"{one.trajectory_id}-{n}") for n, message in enumerate(one.messages)],
            ensure_ascii=False,
        ),
        "events": "[]",
        "task_batch": one.task_batch,
        "split": one.split,
        "stop": one.stop,
        "fault": one.fault,
        "adapter": one.adapter,
        "user_policy": one.user_policy,
        "seed": one.seed,
        "cost_usd": one.cost_usd,
        "metadata_json": json.dumps(one.metadata, ensure_ascii=False) if one.metadata else None,
    }


def _message(message: Message, identity: str) -> dict[str, Any]:
    """Return a message as Inspect's `ChatMessage`; its own tools' calls are all that a user cannot have."""
    metadata = dict(message.metadata)
    if message.requestor == "user":
        metadata["requestor"] = "user"
    calls = [
        {"id": call.id, "function": call.name, "arguments": call.arguments, "type": "function"}
        for call in message.tool_calls
    ]
    said: dict[str, Any] = {"id": identity, "role": message.role, "content": message.content or ""}
    if message.role == "assistant" and calls:
        said["tool_calls"] = calls
    elif calls:
        metadata["tool_calls"] = calls
    if message.role == "tool":
        said["tool_call_id"], said["function"] = message.tool_call_id, message.tool_name
        if message.is_error:
            said["error"] = {"type": "unknown", "message": message.content or ""}
    if message.content is None:
        metadata["no_content"] = True
    if metadata:
        said["metadata"] = metadata
    return said
