"""A table that comes in pieces and may be larger than memory: written as it comes, then put in order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from trace_assets.importers.sorting import sorted_parts
from trace_assets.records import Record
from trace_assets.records.table import to_frame
from trace_assets.store.tables import ROW_GROUP_ROWS

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
        self._writer: pq.ParquetWriter | None = None

    def add(self, table: pa.Table) -> None:
        """Take in some rows."""
        self.rows += table.num_rows
        self._held.append(table)
        size = sum(one.nbytes for one in self._held)
        if sum(one.num_rows for one in self._held) >= ROW_GROUP_ROWS or size >= self._waiting:
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
        """Complete the table.

        Args:
            version: Its content version.
            is_sorted: Whether it came in the order of its key.
        """
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
