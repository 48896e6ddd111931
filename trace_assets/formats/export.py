"""Stored trajectories, written in the forms that other programs read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from trace_assets.errors import InputError
from trace_assets.formats.atif import write_atif
from trace_assets.formats.parquet import write_rows
from trace_assets.records import Message, ToolCall, Trajectory, TrajectoryHead
from trace_assets.store import Store
from trace_assets.store.files import replacing_file
from trace_assets.store.trajectories import read_some

# Which trajectories are exported, and the way to them that never holds them all.


OUTCOMES = ("passed", "failed", "unjudged")
CHUNK = 256
"""Trajectories that are read at once."""


@dataclass(frozen=True)
class Selection:
    """A choice of trajectories; what is None does not restrict.

    Attributes:
        batch: One task batch.
        target: One target.
        outcome: Passed, failed, or without a verdict.
    """

    batch: str | None = None
    target: str | None = None
    outcome: str | None = None

    def trajectories(self, store: Store) -> Iterator[Trajectory]:
        """Yield the chosen trajectories, batch by batch in the order of their ids.

        Raises:
            InputError: The outcome, the batch or the target is not known, or nothing was chosen.
        """
        if self.outcome is not None and self.outcome not in OUTCOMES:
            names = _listed(OUTCOMES)
            raise InputError(f"there is no outcome '{self.outcome}'; choose one of {names}.")
        batches = store.partitions(TrajectoryHead)
        if self.batch is not None and self.batch not in batches:
            raise InputError(f"there is no batch '{self.batch}' in the store; there are {_listed(batches)}.")
        found, targets = 0, set[str]()
        for batch in batches if self.batch is None else [self.batch]:
            heads = store.frame(TrajectoryHead, batch).select("trajectory_id", "target", "success")
            targets.update(heads["target"])
            ids = heads.filter(self._wanted())["trajectory_id"].sort().to_list()
            found += len(ids)
            for first in range(0, len(ids), CHUNK):
                yield from read_some(store, batch, ids[first : first + CHUNK])
        if self.target is not None and self.target not in targets:
            raise InputError(f"there is no target '{self.target}'; there are {_listed(sorted(targets))}.")
        if not found:
            raise InputError(
                "no trajectory fits; loosen --batch, --target or --outcome, or ingest some first."
            )

    def _wanted(self) -> pl.Expr:
        wanted = pl.lit(True)
        if self.target is not None:
            wanted = wanted & (pl.col("target") == self.target)
        if self.outcome == "unjudged":
            wanted = wanted & pl.col("success").is_null()
        elif self.outcome is not None:
            wanted = wanted & pl.col("success").eq_missing(self.outcome == "passed")
        return wanted


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(names) or "none"


def chat_message(message: Message) -> dict[str, Any]:
    """Return a message in the chat form; what the form has no place for is under `metadata`."""
    said: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        said["tool_calls"] = [_call(call) for call in message.tool_calls]
    if message.role == "tool":
        said["tool_call_id"] = message.tool_call_id
        said["name"] = message.tool_name
        said["is_error"] = message.is_error
    if message.requestor == "user":
        said["requestor"] = "user"
    if message.metadata:
        said["metadata"] = message.metadata
    return said


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


# Parquet as data sets on the Hugging Face Hub have it: a row a conversation, `messages` a list of structs.


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


_TEXT, _WHOLE, _FLOAT = pa.large_string(), pa.int64(), pa.float64()
SCOUT_SCHEMA = pa.schema(
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
    return write_rows(path, (scout_row(one) for one in trajectories), SCOUT_SCHEMA), 0


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
            [_scout_message(message, f"{one.trajectory_id}-{n}") for n, message in enumerate(one.messages)],
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


def _scout_message(message: Message, identity: str) -> dict[str, Any]:
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


# Which forms trajectories can be written in, and the one door to all of them.


Exporter = Callable[[Path, Iterable[Trajectory]], tuple[int, int]]
"""Writes trajectories to a file; returns how many it wrote and how many it had to leave out."""

EXPORTERS: Mapping[str, Exporter] = {
    "atif": write_atif,
    "huggingface": write_huggingface,
    "scout": write_scout,
}


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        path: The file.
        written: Trajectories in it.
        left_out: Trajectories that the form cannot hold (ATIF: those without a message).
    """

    path: Path
    written: int
    left_out: int


def export(store: Store, path: Path, format: str, selection: Selection) -> Exported:
    """Write chosen trajectories to a file, which is put in place when it is whole.

    Raises:
        InputError: The format is not known, nothing fits the selection, or the file cannot be written.
    """
    if format not in EXPORTERS:
        raise InputError(f"there is no format '{format}' to write; choose one of {', '.join(EXPORTERS)}.")
    try:
        with replacing_file(path) as partial:
            written, left = EXPORTERS[format](partial, selection.trajectories(store))
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}); choose another place.") from error
    return Exported(path, written, left)
