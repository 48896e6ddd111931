"""One file as it is read row by row: each task once, and what is wrong with a row in one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import polars as pl
import pyarrow as pa

from trace_assets.formats.chat import first_words
from trace_assets.formats.problem import Kind, Problem, problem_kind, reason_of, repeated
from trace_assets.formats.task_facts import TaskFacts
from trace_assets.records import CheckRow, MessageRow, Record, Task, Trajectory, TrajectoryHead
from trace_assets.records.table import polars_schema, to_frame
from trace_assets.store.content import RowSum

_UNTOLD = TaskFacts()
_WHERE = ("domain", "benchmark", "dataset", "suite")
"""What a row calls where its task comes from: tasks of several are numbered alike."""
_SAID = 0
"""In the place of what a task's first row tells: that another tells otherwise has been said."""


class Reading:
    """One file of which nothing but conversations is known.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._known: dict[str, int] = {}
        self._met: set[int] = set()

    def told(
        self, trajectory: Trajectory, notice: str, position: str, facts: TaskFacts = _UNTOLD
    ) -> Iterator[Task | Trajectory | Problem]:
        """Yield a trajectory, before it its task where that is a new one, and what there is to say of both.

        Args:
            trajectory: What a row holds.
            notice: Why it is not judged, or what speaks against its verdict; empty when there is nothing.
            position: Where it is.
            facts: What the row tells of the task.
        """
        if self._is_again(trajectory):
            name = str(trajectory.source_id)
            yield repeated(name, Path(self._path), "this file", True, position)
            return
        where = [trajectory.metadata.get(name) for name in _WHERE]
        tells = hash(repr((facts, where)))
        if trajectory.task_id in self._known:
            if (facts != _UNTOLD or any(where)) and self._known[trajectory.task_id] not in (tells, _SAID):
                self._known[trajectory.task_id] = _SAID
                message = (
                    f"what it tells of the task '{trajectory.task_id}' is not what an earlier row tells, "
                    "which is kept; tasks that differ need ids, or targets, of their own"
                )
                yield Problem(
                    path=self._path, position=position, message=message, severity="notice", kind="other_task"
                )
        else:
            self._known[trajectory.task_id] = tells
            yield Task(
                task_id=trajectory.task_id,
                target=trajectory.target,
                task_batch=trajectory.task_batch,
                instruction=facts.instruction or first_words(trajectory.messages),
                has_expected=facts.has_expected,
                expected_actions=facts.expected_actions,
                expected_outputs=facts.expected_outputs,
                domain_policy=facts.domain_policy,
            )
        if notice:
            kind: Kind = "not_judged" if trajectory.success is None else "contradicts"
            yield Problem(path=self._path, position=position, message=notice, severity="notice", kind=kind)
        yield trajectory

    def _is_again(self, one: Trajectory) -> bool:
        """Tell whether a run of this name was met that says the same: logs are written, and joined, twice.

        One name alone says nothing, as it may be that of many runs.
        """
        counted = one.trajectory_id.removeprefix(f"{one.task_batch}/").isdigit()
        if one.source_id is None or not counted:  # what has an id of its own is told apart by that
            return False
        said = tuple((each.role, each.content, repr(each.tool_calls)) for each in one.messages)
        mark = hash((one.source_id, one.task_id, one.trial, one.reward, said))
        again = mark in self._met
        self._met.add(mark)
        return again

    def left_out(self, error: Exception, position: str, what: str) -> Problem:
        """Return the sentence about a row that raised one of `UNUSABLE`.

        Args:
            error: What it raised.
            position: Where it is.
            what: What it is called in a sentence, such as `this line`.
        """
        message = f"{reason_of(error)}; {what} is left out"
        return Problem(path=self._path, position=position, message=message, kind=problem_kind(error))


# Part of a batch as tables: what an importer hands to the spool, a few thousand messages at a time.


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
