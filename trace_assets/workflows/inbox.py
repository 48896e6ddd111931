"""The inbox: batches as they were ingested, of which tables are made; beside it batches of tasks alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from trace_assets.errors import InputError
from trace_assets.records import Task, TrajectoryHead
from trace_assets.store import Store
from trace_assets.store.manifest import MANIFEST, Manifest, manifest_of
from trace_assets.store.tables import is_partition, is_readable
from trace_assets.study import Study

AGAIN = "run `trace ingest` with its file again"


def batches(study: Study) -> list[str]:
    """Return the batches in the inbox, sorted."""
    if not study.home.inbox.is_dir():
        return []
    # What is half-made begins with a dot; folders that are called otherwise were not laid here.
    found = (path for path in study.home.inbox.iterdir() if is_partition(path.name))
    return sorted(path.name for path in found if (path / "version").is_file())


def played_here(study: Study, batch: str) -> int:
    """Return how many stored trajectories of a batch were rolled out here: its inbox may have been lost."""
    return study.store.frame(TrajectoryHead, batch).filter(pl.col("source") == "rollout").height


def inbox(study: Study, batch: str) -> Store:
    """Return the tables of a batch as they were ingested."""
    return batch_store(study.home.inbox / batch)


def seal_batch(folder: Path) -> None:
    """Write down what a batch's files are, before the folder is put in place."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    Manifest(folder / MANIFEST, folder).build(files)


def batch_store(folder: Path) -> Store:
    """Return the tables of a batch."""
    return Store(folder, Manifest(folder / MANIFEST, folder), restored_by=AGAIN)


def laid_version(folder: Path) -> str:
    """Return the content version of a batch as it was laid; nothing when none was."""
    try:
        return (folder / "version").read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return ""


def batch_problem(folder: Path) -> str:
    """Say what is wrong with a batch's files, each of which is read to its end; nothing when all is well.

    Of a batch that an earlier version of the program laid, it is known only whether the files can be opened.
    """
    manifest = Manifest(folder / MANIFEST, folder)
    if manifest.is_there():
        found = manifest.problems(manifest.entries())
        return "; ".join(f"{folder / name} {said}" for name, said in sorted(found.items()))
    for file in sorted(folder.glob("*/*.parquet")):
        if not is_readable(file):
            return f"{file} cannot be read"
    return ""


# Tasks that came without trajectories: they wait here, one file a batch, to be rolled out.


FOLDER = "task_inbox"
LAID_AGAIN = "drop the file of these tasks into the watched folder again"


def task_inbox(study: Study) -> Store:
    """Return the tables of the task inbox; partitions are batches."""
    return Store(study.home.path / FOLDER, manifest_of(study.home.path), restored_by=LAID_AGAIN)


def task_batches(study: Study) -> list[str]:
    """Return the batches in the task inbox, sorted; one whose file is gone is none of them."""
    inbox_of_tasks = task_inbox(study)
    return [batch for batch in inbox_of_tasks.partitions(Task) if inbox_of_tasks.path(Task, batch).exists()]


def lost_tasks(study: Study) -> dict[str, str]:
    """Return the batches whose file in the task inbox is gone or altered, each with what became of it."""
    found, inbox_of_tasks = {}, task_inbox(study)
    for batch in inbox_of_tasks.partitions(Task):
        try:
            inbox_of_tasks.check(Task, batch)
        except InputError as error:
            found[batch] = str(error)
    return found


def lay_tasks(study: Study, batch: str, tasks: Sequence[Task]) -> str:
    """Put tasks into the inbox as one batch, in place of what lay there; return the content version."""
    return task_inbox(study).write(
        [task.model_copy(update={"task_batch": batch}) for task in tasks], Task, batch
    )


def known_tasks(study: Study, *, but: str = "") -> dict[str, Task]:
    """Return every task that some batch holds, by id; one that was lost from the inbox holds none there."""
    found, lost = study.store.read(Task), lost_tasks(study)
    for batch in task_batches(study):
        found += task_inbox(study).read(Task, batch) if batch not in lost else []
    for batch in batches(study):
        found += inbox(study, batch).read(Task)
    return {task.task_id: task for task in found if task.task_batch != but}
