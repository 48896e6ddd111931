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
from trace_assets.formats.scout import write_scout
from trace_assets.records import Message, ToolCall, Trajectory, TrajectoryHead
from trace_assets.store import Store
from trace_assets.store.files import replacing_file
from trace_assets.store.trajectories import read_some

__all__ = ["EXPORTERS", "Exported", "export"]


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
