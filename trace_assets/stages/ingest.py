"""Trajectories that were made elsewhere: read, checked and laid into the inbox, one batch a source file."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from trace_assets.importers.problem import Problem
from trace_assets.importers.registry import read_trajectories
from trace_assets.records import Task, Trajectory, TrajectoryHead
from trace_assets.store import Store
from trace_assets.store.content import text_version
from trace_assets.store.home import replacing_folder
from trace_assets.store.tables import WHOLE
from trace_assets.store.trajectories import write_trajectories
from trace_assets.study import Study


@dataclass(frozen=True)
class Ingested:
    """What came of some files.

    Attributes:
        new: Batches that were not there or whose content changed, with their number of trajectories.
        unchanged: Batches that were there with equal content.
        problems: Everything that was left out or needs a look.
    """

    new: dict[str, int]
    unchanged: dict[str, int]
    problems: Sequence[Problem]

    @property
    def errors(self) -> list[Problem]:
        """The problems that left something out."""
        return [problem for problem in self.problems if problem.severity == "error"]


def ingest(study: Study, paths: Sequence[Path], format: str = "auto") -> Ingested:
    """Read files into the inbox; the assets `tasks` and `trajectories` take them from there.

    A trajectory or task that another batch holds already is left where it is. The same files again change
    nothing.

    Args:
        study: Where to.
        paths: Trajectory files.
        format: A format's name, or `auto`.

    Raises:
        InputError: No trajectory could be read, or a folder cannot be written.
    """
    imported = read_trajectories(paths, format)
    problems = list(imported.problems)
    by_batch: dict[str, list[Trajectory]] = defaultdict(list)
    for trajectory in imported.trajectories:
        by_batch[trajectory.task_batch].append(trajectory)
    tasks: dict[str, list[Task]] = defaultdict(list)
    for task in imported.tasks:
        tasks[task.task_batch].append(task)
    others = {batch: inbox(study, batch) for batch in batches(study) if batch not in by_batch}
    held = {
        kind: {name: batch for batch, store in others.items() for name in store.frame(record)[column]}
        for kind, record, column in (
            ("trajectory", TrajectoryHead, "trajectory_id"),
            ("task", Task, "task_id"),
        )
    }
    new: dict[str, int] = {}
    unchanged: dict[str, int] = {}
    for batch, trajectories in sorted(by_batch.items()):
        kept = [one for one in trajectories if one.trajectory_id not in held["trajectory"]]
        for one in trajectories:
            if (elsewhere := held["trajectory"].get(one.trajectory_id)) is not None:
                message = (
                    f"trajectory '{one.trajectory_id}' is held by batch '{elsewhere}' already and stays there"
                )
                problems.append(Problem(path=one.source, message=message, severity="notice"))
        if not kept:
            unchanged[batch] = 0
            continue
        own = [task for task in tasks[batch] if task.task_id not in held["task"]]
        changed = _lay(study, batch, own, kept)
        (new if changed else unchanged)[batch] = len(kept)
    return Ingested(new, unchanged, problems)


def batches(study: Study) -> list[str]:
    """Return the batches in the inbox, sorted."""
    if not study.home.inbox.is_dir():
        return []
    return sorted(path.name for path in study.home.inbox.iterdir() if (path / "version").is_file())


def inbox(study: Study, batch: str) -> Store:
    """Return the tables of a batch as they were ingested."""
    return Store(study.home.inbox / batch)


def _lay(study: Study, batch: str, tasks: list[Task], trajectories: list[Trajectory]) -> bool:
    """Write one batch; tell whether its content is new."""
    folder = study.home.inbox / batch
    with TemporaryDirectory(dir=study.home.path, prefix=".ingest-") as name:
        store = Store(Path(name) / "tables")
        version = text_version(store.write(tasks, Task), write_trajectories(store, trajectories, WHOLE))
        (store.folder / "version").write_text(version, encoding="utf-8")
        if (folder / "version").is_file() and (folder / "version").read_text(encoding="utf-8") == version:
            return False
        with replacing_folder(folder) as building:
            shutil.copytree(store.folder, building, dirs_exist_ok=True)
    return True
