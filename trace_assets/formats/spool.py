"""A batch on its way into the store: parts come in, sorted tables with their versions come out.

Parts are written as they come, so memory holds a few of them. When they came in the order of the
trajectories' ids the tables are finished by closing them; otherwise they are sorted on disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType

import polars as pl
import pyarrow as pa

from trace_assets.formats.columns import GrowingTable
from trace_assets.formats.problem import Problem, differs_from
from trace_assets.formats.reading import PART_TABLES, Part
from trace_assets.records import Record, Task, ToldTask
from trace_assets.records.table import from_frame, polars_schema, to_frame
from trace_assets.store import Store
from trace_assets.store.content import RowSum, text_version

WAITING = 64 << 20
"""Bytes of a table that wait to be written together, unless said otherwise."""
_TASKS = 1000
"""Tasks that are made into a table at once."""


class Spool:
    """Collects one batch under a folder of its own.

    Args:
        folder: An empty folder on the file system of the store.
        waiting: Bytes of a table that may wait to be written together, or be sorted at once.

    Attributes:
        held: Tasks that other batches in the store brought: (batch, what they read) by id.
        problems: What tasks read otherwise than there; known when it is finished.
    """

    def __init__(self, folder: Path, waiting: int = WAITING) -> None:
        self.store = Store(folder)
        self.held: Mapping[str, tuple[str, int]] = {}
        self.problems: list[Problem] = []
        self.n_trajectories = 0
        self.n_messages = 0
        self._waiting = waiting
        self._sums = {record: RowSum(record, polars_schema(record)) for record in PART_TABLES}
        records: tuple[type[Record], ...] = (*PART_TABLES, Task, ToldTask)
        self._tables = {record: self._table(record) for record in records}
        self._new: list[Task] = []
        self._new_size = 0
        self._told: set[str] = set()
        self._last = ""
        self._sorted = True

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for table in self._tables.values():
            table.close()

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
            self._tables[record].add(part.tables[record.table])

    def add_task(self, task: Task, *, told: bool = False) -> None:
        """Take in a task of this batch's file, once.

        Args:
            task: The task.
            told: Another batch brings it; it is kept for what it reads here.
        """
        if told:
            if task.task_id not in self._told:
                self._told.add(task.task_id)
                self._tables[ToldTask].add(_told([task]))
            return
        self._new.append(task)
        self._new_size += len(task.instruction)
        if len(self._new) >= _TASKS or self._new_size >= self._waiting:
            self._gather()

    def finish(self) -> str:
        """Complete the tables, `tasks` and `told_tasks` included, and return one version for all."""
        self._gather()
        tasks, sums = self._tables[Task], RowSum(Task, polars_schema(Task))
        tasks.replace(self._own(tasks, sums), sums.version)
        versions = [sums.version()]
        if self._tables[ToldTask].rows:
            versions.append(self._finish_told())
        parts = []
        for record in PART_TABLES:
            version = self._sums[record].version()
            self._tables[record].finish(version, is_sorted=self._sorted)
            parts.append(version)
        return text_version(*versions, text_version(*parts))

    def _own(self, tasks: GrowingTable, sums: RowSum) -> Iterator[pa.Table]:
        """Yield the tasks that this batch brings; those of others become told ones."""
        held = list(self.held)
        for table in tasks.parts():
            frame = pl.DataFrame(pl.from_arrow(table))
            others = frame.filter(pl.col("task_id").is_in(held))
            if others.height:
                frame = frame.filter(~pl.col("task_id").is_in(held))
                for task in from_frame(others, Task):
                    self.add_task(task, told=True)
                    problem = differs_from(*self.held[task.task_id], task, Path(task.task_batch))
                    self.problems += [problem] if problem is not None else []
            sums.add(frame)
            yield frame.to_arrow()

    def _finish_told(self) -> str:
        sums, table = RowSum(ToldTask, polars_schema(ToldTask)), self._tables[ToldTask]

        def counted() -> Iterator[pa.Table]:
            for part in table.parts():
                sums.add(pl.DataFrame(pl.from_arrow(part)))
                yield part

        table.replace(counted(), sums.version)
        return sums.version()

    def _table(self, record: type[Record]) -> GrowingTable:
        return GrowingTable(self.store.path(record), record, self._waiting)

    def _gather(self) -> None:
        if self._new:
            self._tables[Task].add(to_frame(self._new, Task).to_arrow())
            self._new, self._new_size = [], 0


def _told(tasks: list[Task]) -> pa.Table:
    return to_frame([ToldTask(**one.part(ToldTask)) for one in tasks], ToldTask).to_arrow()
