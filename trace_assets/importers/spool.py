"""A batch on its way into the store: parts come in, three sorted tables with their versions come out.

Parts are written as they come, so memory holds a few of them. When they came in the order of the
trajectories' ids the tables are finished by closing them; otherwise DuckDB sorts them on disk.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from pathlib import Path
from types import TracebackType

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from trace_assets.importers.part import PART_TABLES, Part
from trace_assets.records import Record, Task, ToldTask
from trace_assets.records.table import from_frame, polars_schema, to_frame
from trace_assets.store import Store
from trace_assets.store.catalog import quoted
from trace_assets.store.content import text_version
from trace_assets.store.row_sum import RowSum
from trace_assets.store.tables import ROW_GROUP_ROWS

SORT_MEMORY = "384MB"
"""What DuckDB may hold while it sorts; the rest goes to disk."""
WAITING = 64 << 20
"""Bytes of a table that wait to be written together, unless said otherwise."""
_TASKS = 10_000
"""Tasks that are made into a frame at once."""
_TASK_TEXT = 6
"""Bytes of memory for each character of a task until it is laid into the store."""


class Spool:
    """Collects one batch under a folder of its own.

    Args:
        folder: An empty folder on the file system of the store.

    """

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder)
        self.n_trajectories = 0
        self.n_messages = 0
        self._sums = {record: RowSum(record, polars_schema(record)) for record in PART_TABLES}
        self._held: dict[type[Record], list[pa.Table]] = {record: [] for record in PART_TABLES}
        self._writers: dict[type[Record], pq.ParquetWriter] = {}
        self._last = ""
        self._sorted = True
        # Tasks as frames: a record of each would take ten times the memory.
        self._tasks: dict[bool, list[pl.DataFrame]] = {False: [], True: []}
        self._new: dict[bool, list[Task]] = {False: [], True: []}

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for writer in self._writers.values():
            writer.close()

    def add(self, part: Part, waiting: int = WAITING) -> None:
        """Take in a part; its trajectories are in no other part.

        Args:
            part: The part.
            waiting: Bytes that may wait to be written.
        """
        if not part.ids:
            return
        self._sorted = self._sorted and self._last <= part.ids[0]
        self._last = part.ids[-1]
        self.n_trajectories += len(part.ids)
        self.n_messages += part.n_messages
        for record in PART_TABLES:
            self._sums[record].merge(*part.sums[record.table])
            self._held[record].append(part.tables[record.table])
            held = self._held[record]
            rows, size = sum(table.num_rows for table in held), sum(table.nbytes for table in held)
            if rows >= ROW_GROUP_ROWS or size >= waiting:
                self._write(record)

    def add_task(self, task: Task, *, told: bool = False) -> int:
        """Take in a task of this batch's file, once; return the memory that its text takes until it is laid.

        Args:
            task: The task.
            told: Another batch brings it; it is kept for what it reads here.
        """
        self._new[told].append(task)
        if len(self._new[told]) >= _TASKS:
            self._gather(told)
        return _TASK_TEXT * (len(task.instruction) + len(json.dumps(task.payload)))

    def tasks(self, *, told: bool = False) -> pl.DataFrame:
        """Return the tasks that this batch brings, or those of its file that another one brings."""
        self._gather(told)
        frames = self._tasks[told]
        return pl.concat(frames) if frames else pl.DataFrame(schema=polars_schema(Task))

    def leave_to_others(self, held: Collection[str]) -> list[Task]:
        """Make those tasks told ones that another batch brings; return them.

        Args:
            held: Ids of tasks that other batches brought before.
        """
        every = self.tasks()
        others = every.filter(pl.col("task_id").is_in(list(held)))
        if others.height:
            self._tasks[False] = [every.filter(~pl.col("task_id").is_in(list(held)))]
            self._tasks[True].append(others)
        return from_frame(others, Task)

    def _gather(self, told: bool) -> None:
        if self._new[told]:
            self._tasks[told].append(to_frame(self._new[told], Task))
            self._new[told] = []

    def finish(self) -> str:
        """Complete the tables, `tasks` and `told_tasks` included, and return one version for all."""
        order = list(Task.key)
        versions = [self.store.write_frame(self.tasks().sort(order, nulls_last=True), Task)]
        if (told := self.tasks(told=True)).height:
            columns = list(polars_schema(ToldTask))
            frame = told.select(columns).sort(list(ToldTask.key), nulls_last=True)
            versions.append(self.store.write_frame(frame, ToldTask))
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
