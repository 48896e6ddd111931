"""Conversations in Parquet: data sets of the Hugging Face Hub, and Inspect Scout's transcript databases.

Any file with a column `messages` is read, whether a list of structs or JSON text; the other columns are
taken under the names that `openai_chat` knows, or Scout's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trace_assets.importers.openai_chat import read_conversation
from trace_assets.importers.problem import UNUSABLE, Problem
from trace_assets.importers.reading import Reading
from trace_assets.records import Task, Trajectory

_SCOUT: Mapping[str, str] = {
    "transcript_id": "trajectory_id",
    "task_set": "target",
    "task_repeat": "trial",
    "score": "reward",
    "total_time": "seconds",
}
_DROPPED = frozenset({"message_count", "events", "timelines", "events_data", "source_type", "total_tokens"})
_TEXTS = frozenset({"messages", "tools", "checks", "metadata", "score", "metrics", "usage"})
"""Columns that hold JSON text."""


class ParquetImporter:
    """Reads Parquet files with a column `messages`."""

    name = "parquet"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Tell whether it is a Parquet file with a column `messages`."""
        if head[:4] != b"PAR1":
            return False
        try:
            return "messages" in pq.read_schema(path).names
        except (pa.ArrowException, OSError):
            return True  # broken: `read` says so

    def read(self, path: Path) -> Iterator[Task | Trajectory | Problem]:
        """Yield the rows, each task once."""
        try:
            file = pq.ParquetFile(path)
        except (pa.ArrowException, ValueError) as error:
            reason = str(error).splitlines()[0].rstrip(".")
            message = f"the Parquet file cannot be read ({reason}); it may be cut off"
            yield Problem(path=str(path), message=message, kind="broken_off")
            return
        number, reading = -1, Reading(path)
        with file:
            for chunk in file.iter_batches(batch_size=256):
                for value in chunk.to_pylist():
                    number += 1
                    position = f"row {number}"
                    try:
                        trajectory, notice = _trajectory(path, number, value)
                    except UNUSABLE as error:
                        yield reading.left_out(error, position, "this row")
                        continue
                    yield from reading.told(trajectory, notice, position)


def _trajectory(path: Path, number: int, value: dict[str, Any]) -> tuple[Trajectory, str]:
    row = {_SCOUT.get(key, key): _json(key, item) for key, item in value.items() if key not in _DROPPED}
    messages = row.get("messages")
    if isinstance(messages, list):
        row["messages"] = [_message(one) for one in messages]
    extra = _json("metadata", row.pop("metadata_json", None))
    if isinstance(extra, dict):
        row["metadata"] = extra
    about = {key: row.pop(key) for key in ("source_id", "split", "fault", "task_batch") if key in row}
    arguments = {key: _dict(row.pop(key, None)) for key in ("agent_args", "model_options")}
    trajectory, notice = read_conversation(path, number, row)
    source = f"parquet:{path.name}"
    return trajectory.model_copy(
        update={"source": source, "source_id": about.get("source_id"), **arguments}
    ), notice


def _message(said: Any) -> Any:
    """Return a message of either form in the chat form, without the columns that it does not use."""
    if not isinstance(said, dict):
        return said
    one = {key: value for key, value in said.items() if value is not None}
    one["metadata"] = _dict(one.get("metadata"))
    if one["metadata"].pop("no_content", False):
        one["content"] = None
    if isinstance(one.get("function"), str):
        one["name"] = one.pop("function")
    if isinstance(one.get("error"), dict):
        one["is_error"] = True
        del one["error"]
    calls = [_call(call) for call in one.get("tool_calls") or one["metadata"].pop("tool_calls", None) or []]
    one["tool_calls"] = calls
    one["requestor"] = one.get("requestor") or one["metadata"].pop("requestor", None)
    one.pop("id", None)
    return one


def _call(call: Any) -> Any:
    if isinstance(call, dict) and isinstance(call.get("function"), str):
        return {"id": call.get("id"), "name": call["function"], "arguments": call.get("arguments")}
    return call


def _json(name: str, value: Any) -> Any:
    if name not in _TEXTS or not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _dict(value: Any) -> dict[str, Any]:
    found = _json("metadata", value)
    return found if isinstance(found, dict) else {}
