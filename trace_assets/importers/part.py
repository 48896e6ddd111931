"""Part of a batch as tables: what an importer hands to the spool, a few thousand messages at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import polars as pl
import pyarrow as pa

from trace_assets.records import CheckRow, MessageRow, Record, Trajectory, TrajectoryHead
from trace_assets.records.table import polars_schema, to_frame
from trace_assets.store.row_sum import RowSum

PART_TABLES: tuple[type[Record], ...] = (MessageRow, CheckRow, TrajectoryHead)
"""The tables that a batch of trajectories consists of; the heads come last."""


@dataclass(frozen=True)
class Part:
    """Some trajectories of one batch.

    Attributes:
        batch: The task batch.
        tables: Arrow table by table name, columns as the records say, sorted by the records' keys.
        sums: (sum of row hashes, rows) by table name, for the content version.
        ids: The trajectories in it, ascending.
    """

    batch: str
    tables: Mapping[str, pa.Table]
    sums: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    ids: Sequence[str] = ()

    @property
    def n_messages(self) -> int:
        """Messages in it."""
        return int(self.tables[MessageRow.table].num_rows)

    @property
    def nbytes(self) -> int:
        """Bytes of its tables in memory."""
        return sum(int(table.nbytes) for table in self.tables.values())


def make_part(given: Mapping[str, pa.Table]) -> Part:
    """Return a part of finished tables, which are sorted here when they are not."""
    heads = given[TrajectoryHead.table]
    ids = heads["trajectory_id"].to_pylist()
    ordered = all(a < b for a, b in pairwise(ids))
    tables, sums = {}, {}
    for record in PART_TABLES:
        table = given[record.table]
        if not ordered:
            table = _frame(table).sort(record.key).to_arrow()
        rows = RowSum(record, polars_schema(record))
        if len(record.key) > 1:
            rows.add_sorted(table)
        else:
            rows.add(_frame(table))
        tables[record.table], sums[record.table] = table, (rows.total, rows.rows)
    return Part(heads["task_batch"][0].as_py(), tables, sums, ids if ordered else sorted(ids))


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def part_of(trajectories: Sequence[Trajectory]) -> Part:
    """Return the tables of some trajectories of one batch."""
    frames = (
        to_frame([row for one in trajectories for row in one.message_rows()], MessageRow),
        to_frame([row for one in trajectories for row in one.check_rows()], CheckRow),
        to_frame([one.head() for one in trajectories], TrajectoryHead),
    )
    return make_part(
        {record.table: frame.to_arrow() for record, frame in zip(PART_TABLES, frames, strict=True)}
    )
