"""Files of any known format, read into records at once: what `trace ingest` keeps on disk by batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from trace_assets.errors import InputError
from trace_assets.formats.load import told_once
from trace_assets.formats.problem import Problem, differs, repeated, unreadable
from trace_assets.formats.registry import Item, choose, expand
from trace_assets.formats.verdict_table import set_apart
from trace_assets.records import Task, Trajectory
from trace_assets.system.progress import progress
from trace_assets.untrusted.allowance import OF_MACHINE, Allowance


@dataclass(frozen=True)
class Imported:
    """What some files held.

    Attributes:
        trajectories: In the order of the files and of the rows in them, each id once.
        tasks: The tasks behind them, each id once, as first met.
        problems: What was left out or needs a look, in the order in which it was met.
    """

    trajectories: list[Trajectory] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def read_trajectories(
    paths: Iterable[str | Path], format: str = "auto", allowance: Allowance = OF_MACHINE
) -> Imported:
    """Read trajectories from files of any known format.

    Reading the same files twice gives equal rows. A trajectory that occurs twice is kept once.

    Args:
        paths: Files to read, and folders of them.
        format: A format's name, or `auto` to look at each file.
        allowance: Memory that reading a row may take; all that is read is held besides.

    Returns:
        Everything that could be read, and a `Problem` for everything that could not.

    Raises:
        InputError: `format` is not known, no file was named, or not one trajectory could be read.
    """
    files, problems = expand(paths, format)
    if not files:
        raise InputError("no file was named to read trajectories from; name at least one.")
    files, verdicts = set_apart(files, format)
    imported, seen, tasks = Imported(problems=problems), dict[str, Trajectory](), dict[str, Task]()
    with progress("reading trajectories", len(files)) as bar:
        for file in files:
            for item in verdicts.judged(_items(file, format, allowance)):
                _keep(item, file, imported, seen, tasks)
            bar.advance(note=file.name)
    imported.problems.extend(verdicts.told())
    if not imported.trajectories:
        reasons = " ".join(str(problem) for problem in imported.problems[:3])
        reasons = reasons or "They hold no trajectories."
        raise InputError(f"no trajectory could be read from {len(files)} file(s). {reasons}")
    return imported


def _items(file: Path, format: str, allowance: Allowance) -> Iterator[Item]:
    try:
        importer = choose(file, format)
        if isinstance(importer, Problem):
            yield importer
        else:
            yield from told_once(importer.read(file, allowance), file)
    except OSError as error:
        yield unreadable(file, error)


def _keep(
    item: Item, file: Path, imported: Imported, seen: dict[str, Trajectory], tasks: dict[str, Task]
) -> None:
    """Put one item where it belongs; a repeated one is told of and left out."""
    if isinstance(item, Problem):
        imported.problems.append(item)
    elif isinstance(item, Task):
        first = tasks.setdefault(item.task_id, item)
        if first is item:
            imported.tasks.append(item)
        elif (changed := differs(first, item, file)) is not None:
            imported.problems.append(changed)
    elif (earlier := seen.setdefault(item.trajectory_id, item)) is item:
        imported.trajectories.append(item)
    else:
        same = earlier.messages == item.messages and earlier.reward == item.reward
        imported.problems.append(repeated(item.trajectory_id, file, earlier.source, same))
