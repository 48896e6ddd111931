"""Conversations in Parquet: data sets of the Hugging Face Hub, and Inspect Scout's transcript databases.

Any file with a column `messages` is read, whether a list of structs or JSON text; the other columns are
taken under the names that `openai_chat` knows, or Scout's.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from trace_assets.formats.fields import dict_of
from trace_assets.formats.openai_chat import read_conversation
from trace_assets.formats.problem import UNUSABLE, Problem, Reading, problem_kind
from trace_assets.formats.task_facts import FIELDS, facts_of
from trace_assets.records import Task, Trajectory
from trace_assets.untrusted import parquet_rows
from trace_assets.untrusted.allowance import (
    OF_MACHINE,
    Allowance,
    TooLarge,
    Unfolding,
    UnfoldsTooFar,
    read_lines,
    size_in_words,
)
from trace_assets.untrusted.json_text import longest, parse_json, read_embedded, read_json, too_long
from trace_assets.untrusted.parquet_rows import END, GROUP, REFUSED, ROW, UNFIT

_SCOUT: Mapping[str, str] = {
    "transcript_id": "trajectory_id",
    "task_set": "target",
    "task_repeat": "trial",
    "score": "reward",
    "total_time": "seconds",
}
_DROPPED = frozenset({"message_count", "events", "timelines", "events_data", "source_type", "total_tokens"})
_TEXTS = frozenset(
    {"messages", "tools", "checks", "metadata", "score", "metrics", "usage"}
    | {"expected_actions", "expected_outputs"}
)
"""Columns that hold JSON text."""
_LEAST = 64
"""Bytes that a row counts beside its text: a file may name a row without one any number of times."""
_PREFIX = 32
_CRASHES = 3
"""How often the unfolding process may be ended by one file."""


class ParquetImporter:
    """Reads Parquet files with a column `messages`."""

    name = "parquet"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Tell whether it is a Parquet file; whether it has the column is seen on reading."""
        return head[:4] == b"PAR1"

    def read(self, path: Path, allowance: Allowance = OF_MACHINE) -> Iterator[Task | Trajectory | Problem]:
        """Yield the rows, each task once."""
        reading = Reading(path)
        for row in _rows(path, allowance):
            if isinstance(row, Problem):
                yield row
                continue
            number, value = row
            position = f"row {number}"
            try:
                trajectory, notice = _trajectory(path, number, value)
                facts = facts_of({name: _held(name, value.get(name)) for name in FIELDS})
            except UNUSABLE as error:
                yield reading.left_out(error, position, "this row")
                continue
            yield from reading.told(trajectory, notice, position, facts)


def _rows(path: Path, allowance: Allowance) -> Iterator[tuple[int, dict[str, Any]] | Problem]:
    """Yield (number, row) as another process unfolds them; begin anew behind what ended that process."""
    unfolding = Unfolding(path.stat().st_size)
    group, crashes = 0, 0
    while True:
        with _unfolded(path, allowance, group) as stream:
            whole = begun = False
            for line in read_lines(stream, longest(allowance.row) + _PREFIX):
                if line.data is None or not line.ended:  # the process was ended while it wrote
                    break
                kind, data = line.data[:1], line.data[1:]
                if kind == GROUP:
                    group, begun = int(data), True
                elif kind in (END, UNFIT):
                    whole = True
                    if kind == UNFIT:
                        yield _unfit(path, parse_json(data), allowance)
                elif kind == REFUSED:
                    yield _left_out(path, *parse_json(data), allowance=allowance)
                elif kind == ROW:
                    number, _, text = data.partition(b" ")
                    try:
                        unfolding.count(len(text) + _LEAST)
                        yield int(number), read_json(text, allowance.row)
                    except UnfoldsTooFar as error:
                        message = f"{error}; the rows from here on are left out"
                        position = f"row {int(number)}"
                        yield Problem(path=str(path), position=position, message=message, kind="too_large")
                        return
                    except ValueError as error:
                        yield _left_out(path, int(number), int(number), error, allowance=allowance)
        if whole:
            return
        crashes += 1
        if not begun:
            yield _unfit(path, "", allowance)
            return
        message = f"what its row group {group} holds ended the program that unfolds it; it is left out"
        yield Problem(path=str(path), position=f"row group {group}", message=message)
        group += 1
        if crashes == _CRASHES:
            message = "this happened several times; the rest of the file is not read"
            yield Problem(path=str(path), position=f"row group {group}", message=message)
            return


@contextmanager
def _unfolded(path: Path, allowance: Allowance, group: int) -> Iterator[BinaryIO]:
    command = [sys.executable, "-P", "-m", parquet_rows.__name__, str(path)]
    command += [str(allowance.unfolding), str(longest(allowance.row)), str(group), *sorted(_DROPPED)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(part for part in sys.path if part),
        "ARROW_DEFAULT_MEMORY_POOL": "system",  # what is given back is the system's again
        "MALLOC_ARENA_MAX": "1",
    }
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        yield process.stdout  # type: ignore[misc]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _unfit(path: Path, why: str, allowance: Allowance) -> Problem:
    if why.startswith("it has no column"):
        message = f"the Parquet file cannot be read: {why}"
        return Problem(path=str(path), message=message, kind="unknown_format")
    if why == "memory":
        message = f"the Parquet file cannot be read: {_memory(allowance)}"
        return Problem(path=str(path), message=message, kind="too_large")
    reason = f" ({why})" if why else ", and ends the program that tries"
    message = f"the Parquet file cannot be read{reason}; it may be cut off or damaged"
    return Problem(path=str(path), message=message, kind="broken_off")


def _left_out(
    path: Path, first: int, last: int, why: Exception | str | int, *, allowance: Allowance
) -> Problem:
    """Tell of rows that cannot be had: why, or how long they are."""
    if isinstance(why, int):
        why = too_long(why, allowance.row)
    elif why == "memory":
        why = TooLarge(_memory(allowance))
    kind = problem_kind(why) if isinstance(why, Exception) else "left_out"
    position, what = f"rows {first} to {last}", "these rows are"
    if first == last:
        position, what = f"row {first}", "this row is"
    return Problem(path=str(path), position=position, message=f"{why}; {what} left out", kind=kind)


def _memory(allowance: Allowance) -> str:
    most = size_in_words(allowance.unfolding)
    return f"unfolding it takes more than the {most} of memory that are allowed (ingest.memory_gib)"


def _trajectory(path: Path, number: int, value: dict[str, Any]) -> tuple[Trajectory, str]:
    row = {_SCOUT.get(key, key): _held(key, item) for key, item in value.items() if key not in _DROPPED}
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


def _held(name: str, value: Any) -> Any:
    """Return what a column holds of a row: of text the JSON as it is written, of objects what was given."""
    return _json(name, value) if isinstance(value, str) else _without_gaps(value)


def _without_gaps(value: Any) -> Any:
    """Return a column's value without the empty fields of its objects.

    A column of objects has the fields of all its rows: of each call's arguments those that other calls have
    are empty, and were never given.
    """
    if isinstance(value, dict):
        return {key: _without_gaps(one) for key, one in value.items() if one is not None}
    return [_without_gaps(one) for one in value] if isinstance(value, list) else value


def _call(call: Any) -> Any:
    if isinstance(call, dict) and isinstance(call.get("function"), str):
        return {"id": call.get("id"), "name": call["function"], "arguments": call.get("arguments")}
    return call


def _json(name: str, value: Any) -> Any:
    if name not in _TEXTS or not isinstance(value, str):
        return value
    try:
        return read_embedded(value)
    except ValueError:
        return value


def _dict(value: Any) -> dict[str, Any]:
    return dict_of(_json("metadata", value))


ROWS = 512


def write_rows(path: Path, rows: Iterable[dict[str, Any]], schema: pa.Schema) -> int:
    """Write rows under a schema and return how many there were."""
    written, waiting = 0, iter(rows)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while chunk := list(islice(waiting, ROWS)):
            writer.write_table(pa.Table.from_pylist(chunk, schema=schema))
            written += len(chunk)
    return written
