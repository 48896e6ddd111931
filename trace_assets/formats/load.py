"""Files of any format into batches on disk, however large they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import polars as pl
import pyarrow as pa

from trace_assets.errors import InputError
from trace_assets.formats.columns import GrowingTable, too_heavy, weight
from trace_assets.formats.problem import (
    PART_TABLES,
    Part,
    Problem,
    ProblemLog,
    differs_from,
    part_of,
    reading_of,
    repeated,
    unreadable,
)
from trace_assets.formats.registry import Item, choose
from trace_assets.formats.tau2 import Tau2Importer
from trace_assets.formats.tau2_parts import Seen, read_parts
from trace_assets.formats.unread import LEFT_OUT
from trace_assets.formats.verdict_table import Verdicts, set_apart
from trace_assets.records import Record, Task, ToldTask, Trajectory
from trace_assets.records.table import from_frame, polars_schema, to_frame
from trace_assets.store import Store
from trace_assets.store.content import RowSum, text_version
from trace_assets.system.progress import Bar, progress
from trace_assets.untrusted.allowance import OF_MACHINE, Allowance, TooLarge, Unfolding

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
        self._version: str | None = None

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
        if self._version is None:
            self._version = self._finished()
        return self._version

    def _finished(self) -> str:
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


MESSAGES = 8192
"""Messages that become one part where trajectories come one by one."""
_REMEMBERED = 800
"""Bytes of memory that it takes to remember a trajectory or a task, beside the task's text."""


@dataclass
class Loaded:
    """What some files held, waiting on disk.

    Attributes:
        batches: By task batch.
        problems: What was left out or needs a look.
        gave: File to the batches that it gave trajectories to.
    """

    batches: dict[str, Spool] = field(default_factory=dict)
    problems: ProblemLog = field(default_factory=ProblemLog)
    gave: dict[str, set[str]] = field(default_factory=dict)


class _Known(NamedTuple):
    """A task that was met: where first, and what it reads."""

    batch: str
    reads: int


def load(
    paths: Sequence[Path],
    folder: Path,
    stack: ExitStack,
    format: str = "auto",
    held: Mapping[str, str] = {},
    allowance: Allowance = OF_MACHINE,
    left_out: Collection[str] = (),
) -> Loaded:
    """Read files into batches under a folder.

    Args:
        paths: Files.
        folder: Where the batches' tables are laid, each in a folder of its name.
        stack: Closes what is open when reading is broken off.
        format: A format's name, or `auto` to look at each file.
        held: Trajectory id to the batch that has it already; those are not read again.
        allowance: Memory that this may take; what needs more is left out, and told of.
        left_out: Ids of trajectories that are passed over without a word, and so are tasks of these alone.

    Raises:
        InputError: `format` is not known, no file was named, or not one trajectory could be read.
    """
    if not paths:
        raise InputError("no file was named to read trajectories from; name at least one.")
    paths, verdicts = set_apart(paths, format)
    loaded = Loaded()
    seen: Seen = {name: f"batch '{batch}'" for name, batch in held.items()}
    tasks: dict[str, _Known] = {}
    free = allowance.kept
    with progress("reading messages") as bar:
        for path in paths:
            loaded.gave.setdefault(str(path), set())
            # Not all of what is left, so that a file of countless rows leaves room for the others.
            most = free * 3 // 4
            free -= _load_one(
                path, format, seen, tasks, loaded, folder, stack, allowance, most, bar, verdicts, left_out
            )
    for problem in verdicts.told():
        loaded.problems.add(problem)
    if not any(spool.n_trajectories for spool in loaded.batches.values()):
        held_only = bool(left_out) or any(kind == "held" for _, kind, _ in loaded.problems.counts)
        if not held_only:
            reasons = " ".join(str(problem) for problem in list(loaded.problems)[:3])
            reasons = reasons or "They hold no trajectories."
            raise InputError(f"no trajectory could be read from {len(paths)} file(s). {reasons}")
    return loaded


def _load_one(
    path: Path,
    format: str,
    seen: Seen,
    tasks: dict[str, _Known],
    loaded: Loaded,
    folder: Path,
    stack: ExitStack,
    allowance: Allowance,
    most: int,
    bar: Bar,
    verdicts: Verdicts,
    left_out: Collection[str],
) -> int:
    """Read one file; return the memory that it takes from now on."""
    kept = 0
    try:
        unfolding = Unfolding(path.stat().st_size)
        for item in _file(path, format, seen, allowance, verdicts, left_out):
            if isinstance(item, Problem):
                loaded.problems.add(item)
                continue
            batch = item.task_batch if isinstance(item, Task) else item.batch
            if batch not in loaded.batches:
                loaded.batches[batch] = stack.enter_context(Spool(folder / batch, allowance.waiting))
            spool = loaded.batches[batch]
            if isinstance(item, Task):
                kept += _task(item, path, tasks, loaded, spool)
            else:
                kept += len(item.ids) * _REMEMBERED
                spool.add(item)
                loaded.gave[str(path)].add(item.batch)
                bar.advance(item.n_messages, note=path.name)
                unfolding.count(item.nbytes)
            if kept > most:
                raise TooLarge(
                    "it holds more trajectories and tasks than can be remembered within the memory that "
                    "reading may take (ingest.memory_gib)"
                )
    except TooLarge as error:
        message = f"{error}; what comes after is left out"
        loaded.problems.add(Problem(path=str(path), message=message, kind="too_large"))
    except OSError as error:
        loaded.problems.add(unreadable(path, error))
    return kept


def _task(task: Task, path: Path, tasks: dict[str, _Known], loaded: Loaded, spool: Spool) -> int:
    """Keep a task where it is met first, tell when another file's reads otherwise; return what it takes."""
    reads = reading_of(task)
    first = tasks.get(task.task_id)
    if first is None:
        tasks[task.task_id] = _Known(task.task_batch, reads)
        spool.add_task(task)
        return _REMEMBERED
    if first.batch != task.task_batch:
        spool.add_task(task, told=True)
    if (problem := differs_from(first.batch, first.reads, task, path)) is not None:
        loaded.problems.add(problem)
    return _REMEMBERED if first.batch != task.task_batch else 0


def _file(
    path: Path, format: str, seen: Seen, allowance: Allowance, verdicts: Verdicts, left_out: Collection[str]
) -> Iterator[Part | Task | Problem]:
    importer = choose(path, format)
    if isinstance(importer, Problem):
        yield importer
    elif isinstance(importer, Tau2Importer):
        yield from read_parts(path, seen, allowance)
    else:
        judged = verdicts.judged(importer.read(path, allowance))
        chosen = _without(judged, left_out) if left_out else judged
        yield from _parts(told_once(chosen, path), path, seen, allowance)


def told_once(items: Iterable[Item], path: Path) -> Iterator[Item]:
    """Yield what a file consists of, and behind it what there is to say of it as a whole."""
    left, first = Counter[str](), dict[str, str]()
    above = full = 0
    for item in items:
        if isinstance(item, Trajectory) and item.reward is not None:
            above += item.success is None and item.reward > 1
            full += bool(item.success) and item.reward == 1
        if isinstance(item, Trajectory) and isinstance(counts := item.metadata.get(LEFT_OUT), Mapping):
            for kind, n in counts.items():
                left[kind] += n if isinstance(n, int) else 0
                first.setdefault(kind, item.trajectory_id)
        yield item
    if left:
        named = ", ".join(
            f"{repr(kind) if kind else 'without a kind'} ({n:,}, first in {first[kind]!r})"
            for kind, n in left.most_common(_MOST_KINDS)
        )
        more = f" and {len(left) - _MOST_KINDS:,} more kinds" if len(left) > _MOST_KINDS else ""
        message = f"words of {left.total():,} entries or parts are left out, as their kind is not known: "
        yield Problem(path=str(path), message=f"{message}{named}{more}", severity="notice", kind="incomplete")

    if above and full:
        message = (
            f"{above:,} rewards are above 1, so the {full:,} of just 1, which count as passed, may not be "
            "full ones; add a true or false 'success', or 'max_reward'"
        )
        yield Problem(path=str(path), message=message, severity="notice", kind="contradicts")


_MOST_KINDS = 5
"""Kinds that are named in one sentence."""


def _without(items: Iterable[Item], left_out: Collection[str]) -> Iterator[Item]:
    """Yield what a file holds but for some trajectories, each task once one of its own is left."""
    tasks: dict[str, Task] = {}
    for item in items:
        if isinstance(item, Task):
            tasks[item.task_id] = item
            continue
        if isinstance(item, Trajectory):
            if item.trajectory_id in left_out:
                continue
            if (task := tasks.pop(item.task_id, None)) is not None:
                yield task
        yield item


def _parts(
    items: Iterable[Item], path: Path, seen: Seen, allowance: Allowance
) -> Iterator[Part | Task | Problem]:
    """Gather single trajectories into parts, one batch a part."""
    waiting: list[Trajectory] = []
    prints: dict[str, int] = {}
    size = heavy = 0
    for item in items:
        if not isinstance(item, Trajectory):
            yield item
            continue
        if (problem := too_heavy(item, path, allowance)) is not None:
            yield problem
            continue
        mark = hash((item.reward, tuple((one.role, one.content) for one in item.messages)))
        where = seen.get(item.trajectory_id)
        if where is not None:
            first = prints.get(item.trajectory_id)
            same = None if first is None else first == mark
            numbered = item.trajectory_id.removeprefix(f"{item.task_batch}/").isdecimal()
            yield repeated(item.trajectory_id, path, where, same, numbered=numbered)
            continue
        seen[item.trajectory_id], prints[item.trajectory_id] = item.source, mark
        taken = weight(item)
        full = size >= MESSAGES or heavy + taken > allowance.waiting
        if waiting and (full or waiting[-1].task_batch != item.task_batch):
            yield part_of(waiting)
            waiting, size, heavy = [], 0, 0
        waiting.append(item)
        size, heavy = size + len(item.messages), heavy + taken
        del item
    if waiting:
        yield part_of(waiting)
