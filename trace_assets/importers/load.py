"""Files of any format into batches on disk, however large they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from trace_assets.errors import InputError
from trace_assets.importers.part import Part, part_of
from trace_assets.importers.problem import Problem, ProblemLog, differs, repeated
from trace_assets.importers.registry import Importer, choose
from trace_assets.importers.spool import Spool
from trace_assets.importers.tau2 import Tau2Importer
from trace_assets.importers.tau2_parts import Seen, read_parts
from trace_assets.progress import progress
from trace_assets.records import Task, Trajectory

MESSAGES = 8192
"""Messages that become one part where trajectories come one by one."""


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


def load(
    paths: Sequence[Path], folder: Path, stack: ExitStack, format: str = "auto", held: Mapping[str, str] = {}
) -> Loaded:
    """Read files into batches under a folder.

    Args:
        paths: Files.
        folder: Where the batches' tables are laid, each in a folder of its name.
        stack: Closes what is open when reading is broken off.
        format: A format's name, or `auto` to look at each file.
        held: Trajectory id to the batch that has it already; those are not read again.

    Raises:
        InputError: `format` is not known, no file was named, or not one trajectory could be read.
    """
    if not paths:
        raise InputError("no file was named to read trajectories from; name at least one.")
    loaded = Loaded()
    seen: Seen = {name: f"batch '{batch}'" for name, batch in held.items()}
    tasks: dict[str, Task] = {}
    with progress("reading messages") as bar:
        for path in paths:
            gave = loaded.gave.setdefault(str(path), set())
            for item in _file(path, format, seen):
                if isinstance(item, Problem):
                    loaded.problems.add(item)
                elif isinstance(item, Task):
                    _task(item, path, tasks, loaded, folder, stack)
                else:
                    _spool(loaded, item.batch, folder, stack).add(item)
                    gave.add(item.batch)
                    bar.advance(item.n_messages, note=path.name)
    if not any(spool.n_trajectories for spool in loaded.batches.values()):
        held_only = any(kind == "held" for _, kind, _ in loaded.problems.counts)
        if not held_only:
            reasons = " ".join(str(problem) for problem in list(loaded.problems)[:3])
            reasons = reasons or "They hold no trajectories."
            raise InputError(f"no trajectory could be read from {len(paths)} file(s). {reasons}")
    return loaded


def _spool(loaded: Loaded, batch: str, folder: Path, stack: ExitStack) -> Spool:
    if batch not in loaded.batches:
        loaded.batches[batch] = stack.enter_context(Spool(folder / batch))
    return loaded.batches[batch]


def _task(
    task: Task, path: Path, tasks: dict[str, Task], loaded: Loaded, folder: Path, stack: ExitStack
) -> None:
    """Keep a task where it is met first; tell when another file's reads otherwise."""
    first = tasks.setdefault(task.task_id, task)
    if first is task:
        _spool(loaded, task.task_batch, folder, stack).tasks[task.task_id] = task
    else:
        if first.task_batch != task.task_batch:
            _spool(loaded, task.task_batch, folder, stack).told[task.task_id] = task
        if (problem := differs(first, task, path)) is not None:
            loaded.problems.add(problem)


def _file(path: Path, format: str, seen: Seen) -> Iterator[Part | Task | Problem]:
    try:
        importer = choose(path, format)
        if isinstance(importer, Problem):
            yield importer
        elif isinstance(importer, Tau2Importer):
            yield from read_parts(path, seen)
        else:
            yield from _parts(importer, path, seen)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        message = f"the file cannot be opened ({reason}); check its name"
        yield Problem(path=str(path), message=message, kind="unreadable")


def _parts(importer: Importer, path: Path, seen: Seen) -> Iterator[Part | Task | Problem]:
    """Gather single trajectories into parts, one batch a part."""
    waiting: list[Trajectory] = []
    prints: dict[str, int] = {}
    size = 0
    for item in importer.read(path):
        if not isinstance(item, Trajectory):
            yield item
            continue
        mark = hash((item.reward, tuple((one.role, one.content) for one in item.messages)))
        where = seen.get(item.trajectory_id)
        if where is not None:
            first = prints.get(item.trajectory_id)
            same = None if first is None else first == mark
            yield repeated(item.trajectory_id, path, where, same)
            continue
        seen[item.trajectory_id], prints[item.trajectory_id] = item.source, mark
        if waiting and (size >= MESSAGES or waiting[-1].task_batch != item.task_batch):
            yield part_of(waiting)
            waiting, size = [], 0
        waiting.append(item)
        size += len(item.messages)
    if waiting:
        yield part_of(waiting)
