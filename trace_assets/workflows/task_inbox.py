"""Tasks that came without trajectories: they wait here, one file a batch, to be rolled out."""

from __future__ import annotations

from collections.abc import Sequence

from trace_assets.errors import InputError
from trace_assets.records import Task
from trace_assets.store import Store
from trace_assets.store.manifest import manifest_of
from trace_assets.study import Study
from trace_assets.workflows.ingest import batches, inbox

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
