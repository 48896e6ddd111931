"""A batch on its way into the store: parts come in, three sorted tables with their versions come out.

Parts are written as they come, so memory holds a few of them. When they came in the order of the
trajectories' ids the tables are finished by closing them; otherwise DuckDB sorts them on disk.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from trace_assets.importers.part import PART_TABLES, Part
from trace_assets.records import Record, Task, ToldTask
from trace_assets.records.table import polars_schema, to_frame
from trace_assets.store import Store
from trace_assets.store.catalog import quoted
from trace_assets.store.content import text_version
from trace_assets.store.row_sum import RowSum
from trace_assets.store.tables import ROW_GROUP_ROWS

SORT_MEMORY = "384MB"
"""What DuckDB may hold while it sorts; the rest goes to disk."""


class Spool:
    """Collects one batch under a folder of its own.

    Args:
        folder: An empty folder on the file system of the store.

    Attributes:
        tasks: Those that this batch brings, by id.
        told: Those of its file that another batch brings.
    """

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder)
        self.tasks: dict[str, Task] = {}
        self.told: dict[str, Task] = {}
        self.n_trajectories = 0
        self.n_messages = 0
        self._sums = {record: RowSum(record, polars_schema(record)) for record in PART_TABLES}
        self._held: dict[type[Record], list[pa.Table]] = {record: [] for record in PART_TABLES}
        self._writers: dict[type[Record], pq.ParquetWriter] = {}
        self._last = ""
        self._sorted = True

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for writer in self._writers.values():
            writer.close()

    def add(self, part: Part) -> None:
        """Take in a part; its trajectories are in no other part."""
        if not part.ids:
            return
        self._sorted = self._sorted and self._last <= part.ids[0]
        self._last = part.ids[-1]
        self.n_trajectories += len(part.ids)
        self.n_messages += part.n_messages
        for record in PART_TABLES:
            self._sums[record].merge(*part.sums[record.table])
            self._held[record].append(part.tables[record.table])
            if sum(table.num_rows for table in self._held[record]) >= ROW_GROUP_ROWS:
                self._write(record)

    def finish(self) -> str:
        """Complete the tables, `tasks` and `told_tasks` included, and return one version for all."""
        versions = [self.store.write(self.tasks.values(), Task)]
        if self.told:
            rows = [ToldTask(**one.part(ToldTask)) for one in self.told.values()]
            versions.append(self.store.write(rows, ToldTask))
        parts = []
        for record in PART_TABLES:
            self._write(record)
            version = self._sums[record].version()
            writer = self._writers.pop(record)
            writer.add_key_value_metadata({"trace.version": version})
            writer.close()
            raw, whole = self._partial(record), self.store.path(record)
            if self._sorted:
                os.replace(raw, whole)
            else:
                _sort(raw, whole, record, version)
                raw.unlink()
            parts.append(version)
        return text_version(*versions, text_version(*parts))

    def _partial(self, record: type[Record]) -> Path:
        path = self.store.path(record)
        return path.with_name(f".{path.stem}.partial")

    def _write(self, record: type[Record]) -> None:
        tables, self._held[record] = self._held[record], []
        if record in self._writers and not tables:
            return
        table = pa.concat_tables(tables) if tables else to_frame([], record).to_arrow()
        if record not in self._writers:
            self.store.path(record).parent.mkdir(parents=True, exist_ok=True)
            dictionary = [name for name in table.schema.names if name not in _LONG]
            self._writers[record] = pq.ParquetWriter(
                self._partial(record), table.schema, compression="zstd", use_dictionary=dictionary
            )
        self._writers[record].write_table(table, row_group_size=ROW_GROUP_ROWS)


_LONG = frozenset({"content", "tool_calls", "detail"})
"""Columns whose values are seldom equal, so that a dictionary only costs."""


def _sort(raw: Path, whole: Path, record: type[Record], version: str) -> None:
    order = ", ".join(f'"{name}"' for name in record.key)
    with duckdb.connect(":memory:") as connection:
        connection.execute(f"SET memory_limit = '{SORT_MEMORY}'")
        connection.execute("SET temp_directory = ?", [str(raw.parent)])
        connection.execute(
            f"COPY (SELECT * FROM read_parquet(?) ORDER BY {order}) TO {quoted(whole)} "
            f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP_ROWS}, "
            f"KV_METADATA {{'trace.version': '{version}'}})",
            [str(raw)],
        )
