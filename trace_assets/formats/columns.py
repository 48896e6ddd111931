"""A table that comes in pieces and may be larger than memory: written as it comes, then put in order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trace_assets.formats.problem import Problem
from trace_assets.records import Record, Trajectory
from trace_assets.records.table import to_frame
from trace_assets.store.tables import ROW_GROUP_ROWS
from trace_assets.untrusted.allowance import Allowance
from trace_assets.untrusted.json_text import too_dear

_LONG = frozenset({"content", "tool_calls", "detail", "instruction", "payload"})
"""Columns whose values are seldom equal, so that a dictionary only costs."""


class GrowingTable:
    """One table on its way to a Parquet file.

    Args:
        path: The file that it becomes.
        record: Its record type.
        waiting: Bytes that wait to be written together, or are sorted at once.
    """

    def __init__(self, path: Path, record: type[Record], waiting: int) -> None:
        self.path, self.record, self.rows = path, record, 0
        self._raw = path.with_name(f".{path.stem}.partial")
        self._waiting = waiting
        self._held: list[pa.Table] = []
        self._held_rows = self._held_bytes = 0
        self._writer: pq.ParquetWriter | None = None

    def add(self, table: pa.Table) -> None:
        """Take in some rows."""
        self.rows += table.num_rows
        self._held.append(table)
        self._held_rows += table.num_rows
        self._held_bytes += table.nbytes
        if self._held_rows >= ROW_GROUP_ROWS or self._held_bytes >= self._waiting:
            self._write()

    def close(self) -> None:
        """Close the file that is being written; what was written can then be read by `parts`."""
        if self._writer is not None:
            self._writer.close()

    def parts(self) -> Iterator[pa.Table]:
        """Complete what was taken in, and yield it in the order of the key."""
        self._write(last=True)
        self.close()
        yield from sorted_parts(self._raw, self.record, self._waiting)

    def finish(self, version: str, *, is_sorted: bool = False) -> None:
        """Complete the table."""
        if not is_sorted:
            self.replace(self.parts(), lambda: version)
            return
        self._write(last=True)
        assert self._writer is not None
        self._writer.add_key_value_metadata({"trace.version": version})
        self.close()
        os.replace(self._raw, self.path)

    def replace(self, parts: Iterator[pa.Table], version: Callable[[], str]) -> None:
        """Write the table anew.

        Args:
            parts: Its rows in the order of its key.
            version: Returns its content version once all parts have come.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with _writer(self.path, to_frame([], self.record).to_arrow().schema) as writer:
            for table in parts:
                writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
            writer.add_key_value_metadata({"trace.version": version()})
        self._raw.unlink(missing_ok=True)

    def _write(self, last: bool = False) -> None:
        tables, self._held = self._held, []
        self._held_rows = self._held_bytes = 0
        if not tables and not (last and self._writer is None):
            return
        table = pa.concat_tables(tables) if tables else to_frame([], self.record).to_arrow()
        if self._writer is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = _writer(self._raw, table.schema)
        self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)


def _writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    dictionary = [name for name in schema.names if name not in _LONG]
    return pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=dictionary)


# A table too large for memory put in the order of its key: divided by ranges of it, each range sorted alone.


def sorted_parts(raw: Path, record: type[Record], most: int) -> Iterator[pa.Table]:
    """Yield a table in the order of its key, in parts.

    Args:
        raw: A Parquet file in which rows that share the first key column stand together.
        record: Its record type, which gives the key.
        most: Bytes of a part; rows that share the first key column stay in one part however large they are.
    """
    order = [(name, "ascending") for name in record.key]
    with pq.ParquetFile(raw) as file, TemporaryDirectory(dir=raw.parent, prefix=".sort-") as name:
        ranges = _ranges(file, record.key[0], most)
        if len(ranges) <= 1:
            yield file.read().sort_by(order)
            return
        folder = Path(name)
        _divide(file, record.key[0], ranges, folder)
        for number in range(len(ranges)):
            path = folder / f"{number}.arrow"
            with pa.OSFile(str(path)) as source:
                table = pa.ipc.open_stream(source).read_all()
            path.unlink()
            yield table.sort_by(order)
            del table


def _ranges(file: pq.ParquetFile, key: str, most: int) -> list[str]:
    """Return the first key of each range, ascending; none where all fits into one."""
    if sum(file.read_row_group(number).nbytes for number in range(file.num_row_groups)) <= most:
        return []
    sizes: dict[str, int] = {}
    for number in range(file.num_row_groups):
        table = file.read_row_group(number).combine_chunks()
        ends = _run_ends(table[key])
        starts = [0, *ends[:-1]] if ends else []
        for name, start, end in zip(table[key].take(starts).to_pylist(), starts, ends, strict=True):
            sizes[name] = sizes.get(name, 0) + table.slice(start, end - start).nbytes
        del table
    firsts: list[str] = []
    filled = 0
    for name in sorted(sizes):
        if not firsts or filled + sizes[name] > most:
            firsts.append(name)
            filled = 0
        filled += sizes[name]
    return firsts


def _run_ends(column: pa.ChunkedArray) -> list[int]:
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], whole.type)
    ends: list[int] = pc.run_end_encode(whole, pa.int64()).run_ends.to_pylist() if len(whole) else []
    return ends


def _divide(file: pq.ParquetFile, key: str, firsts: list[str], folder: Path) -> None:
    """Write the rows of each range to a file of its own, `<number>.arrow`."""
    bounds = pl.Series(firsts, dtype=pl.String)
    with ExitStack() as stack:
        writers: dict[int, pa.RecordBatchWriter] = {}
        for number in range(file.num_row_groups):
            table = file.read_row_group(number)
            places = bounds.search_sorted(pl.Series(table[key]), side="right") - 1
            for place in places.unique().to_list():
                if place not in writers:
                    sink = stack.enter_context(pa.OSFile(str(folder / f"{place}.arrow"), "wb"))
                    writers[place] = stack.enter_context(pa.ipc.new_stream(sink, table.schema))
                writers[place].write_table(table.filter((places == place).to_arrow()))
            del table, places


# What a trajectory takes on its way from records to tables; names are repeated there in every row.


_TRAJECTORY, _MESSAGE, _CALL, _CHECK = 8000, 3000, 1700, 2800
"""Bytes for a trajectory and for each message, call and check of it, beside their text."""
_TEXT = 14
"""Bytes for each character of text, as in `untrusted.json_text`."""
_NAME = 8
"""Bytes for each character of a name that a row repeats."""


def weight(trajectory: Trajectory) -> int:
    """Return the memory that a trajectory takes at most until it lies in tables, in bytes."""
    repeated, calls, text = len(trajectory.trajectory_id), 0, 0
    total = 0
    for message in trajectory.messages:
        calls += len(message.tool_calls)
        text += len(message.content or "")
        total += len(message.tool_call_id or "") + len(message.tool_name or "")
    rows = len(trajectory.messages) + len(trajectory.checks)
    return (
        _TRAJECTORY
        + len(trajectory.messages) * _MESSAGE
        + calls * _CALL
        + len(trajectory.checks) * _CHECK
        + (total + rows * repeated) * _NAME
        + text * _TEXT
    )


def too_heavy(trajectory: Trajectory, path: Path, allowance: Allowance) -> Problem | None:
    """Say so when a trajectory takes more memory than one may."""
    if (taken := weight(trajectory)) <= allowance.row:
        return None
    position = f"trajectory '{trajectory.trajectory_id[:100]}'"
    what = f"its {len(trajectory.messages):,} messages; it is left out"
    message = f"{too_dear(taken, allowance.row)} for {what}"
    return Problem(path=str(path), position=position, message=message, kind="too_large")
