"""Tasks that came without trajectories: they wait here, one file a batch, to be rolled out."""

from __future__ import annotations

from collections.abc import Sequence

from trace_assets.records import Task
from trace_assets.stages.ingest import batches, inbox
from trace_assets.store import Store
from trace_assets.store.manifest import manifest_of
from trace_assets.study import Study


def task_inbox(study: Study) -> Store:
    """Return the tables of the task inbox; partitions are batches."""
    again = "drop the file of these tasks into the watched folder again"
    return Store(study.home.path / "task_inbox", manifest_of(study.home.path), restored_by=again)


def task_batches(study: Study) -> list[str]:
    """Return the batches in the task inbox, sorted."""
    return task_inbox(study).partitions(Task)


def lay_tasks(study: Study, batch: str, tasks: Sequence[Task]) -> str:
    """Put tasks into the inbox as one batch, in place of what lay there; return the content version."""
    return task_inbox(study).write(
        [task.model_copy(update={"task_batch": batch}) for task in tasks], Task, batch
    )


def known_tasks(study: Study, *, but: str = "") -> dict[str, Task]:
    """Return every task that some batch holds, by id.

    Args:
        study: Whose tasks.
        but: A batch to leave out.
    """
    found = [*study.store.read(Task), *task_inbox(study).read(Task)]
    for batch in batches(study):
        found += inbox(study, batch).read(Task)
    return {task.task_id: task for task in found if task.task_batch != but}
