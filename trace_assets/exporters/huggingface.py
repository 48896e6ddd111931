"""Parquet as data sets on the Hugging Face Hub have it: a row a conversation, `messages` a list of structs.

`datasets.load_dataset("parquet", data_files=...)` reads it, and `messages` and `tools` go as they are into a
chat template (arguments are JSON text there, as in the OpenAI form).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from trace_assets.exporters.chat import chat_message
from trace_assets.exporters.parquet import write_rows
from trace_assets.records import Trajectory

_CALL = pa.struct(
    [
        ("id", pa.string()),
        ("type", pa.string()),
        ("function", pa.struct([("name", pa.string()), ("arguments", pa.string())])),
    ]
)
_MESSAGE = pa.struct(
    [
        ("role", pa.string()),
        ("content", pa.string()),
        ("tool_calls", pa.list_(_CALL)),
        ("tool_call_id", pa.string()),
        ("name", pa.string()),
        ("is_error", pa.bool_()),
        ("requestor", pa.string()),
        ("metadata", pa.string()),
    ]
)
SCHEMA = pa.schema(
    [
        ("trajectory_id", pa.string()),
        ("task_id", pa.string()),
        ("target", pa.string()),
        ("trial", pa.int64()),
        ("model", pa.string()),
        ("messages", pa.list_(_MESSAGE)),
        ("tools", pa.string()),
        ("reward", pa.float64()),
        ("success", pa.bool_()),
        ("stop", pa.string()),
        ("error", pa.string()),
        ("limit", pa.string()),
        ("checks", pa.string()),
        ("metadata", pa.string()),
    ]
)
"""Columns of the file; `tools`, `checks` and `metadata` are JSON text."""


def write_huggingface(path: Path, trajectories: Iterable[Trajectory]) -> tuple[int, int]:
    """Write trajectories; return how many, and that none was left out."""
    return write_rows(path, (_row(one) for one in trajectories), SCHEMA), 0


def _row(one: Trajectory) -> dict[str, Any]:
    metadata = dict(one.metadata)
    tools = metadata.pop("tools", None)
    checks = [check.model_dump(mode="json") for check in one.checks]
    return {
        "trajectory_id": one.trajectory_id,
        "task_id": one.task_id,
        "target": one.target,
        "trial": one.trial,
        "model": one.policy,
        "messages": [_message(chat_message(message)) for message in one.messages],
        "tools": _json(tools),
        "reward": one.reward,
        "success": one.success,
        "stop": one.stop,
        "error": one.error,
        "limit": one.limit,
        "checks": _json(checks),
        "metadata": _json(metadata),
    }


def _message(said: dict[str, Any]) -> dict[str, Any]:
    return {**said, "metadata": _json(said.get("metadata"))}


def _json(value: Any) -> str | None:
    return json.dumps(value, ensure_ascii=False) if value else None
