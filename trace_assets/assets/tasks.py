"""The asset `tasks`: the live target's own tasks, those of a task file, or those of ingested trajectories."""

from __future__ import annotations

from collections import Counter
from typing import get_args

from trace_assets.assets.asset import StageResult, asset
from trace_assets.errors import InputError
from trace_assets.records import Split, Task, ToldTask
from trace_assets.store.content import text_version
from trace_assets.study import Study
from trace_assets.workflows.finished_work import finished_work, refusal, would_replace
from trace_assets.workflows.ingest import batches, inbox
from trace_assets.workflows.task_inbox import task_batches, task_inbox


@asset(
    "tasks",
    group="rollouts",
    records=(Task, ToldTask),
    deps=["config/targets"],
    partitions="task_batch",
    light=True,
)
def write_tasks(study: Study, batch: str, again: bool = False) -> StageResult:
    """What an agent is asked to do: the live target's tasks by split, or those that were ingested.

    Args:
        study: The study.
        batch: The task batch.
        again: Also where finished episodes were played on tasks that would be other ones.

    Raises:
        InputError: The batch is neither the live target's nor in an inbox, or finished episodes would lose
            their tasks.
    """
    tasks, told = tasks_of(study, batch)
    if not again and (why := would_replace(study, "tasks", batch)):
        raise InputError(refusal(f"tasks[{batch}]", finished_work(study, "tasks", batch), why))
    version = study.store.write(tasks, Task, batch)
    if told:
        version = text_version(version, study.store.write(told, ToldTask, batch))
    else:
        study.store.drop(ToldTask, batch)
    splits = Counter(task.split for task in tasks)
    return StageResult(version, len(tasks), {f"{split}_tasks": n for split, n in sorted(splits.items())})


def tasks_of(study: Study, batch: str) -> tuple[list[Task], list[ToldTask]]:
    """Return a batch's tasks as they would be written now.

    Raises:
        InputError: The batch is neither the live target's nor in an inbox.
    """
    if batch in batches(study):
        return inbox(study, batch).read(Task), inbox(study, batch).read(ToldTask)
    if task_inbox(study).has(Task, batch):
        return task_inbox(study).read(Task, batch), []
    if batch == study.live_batch:
        return [
            task.model_copy(update={"task_batch": batch})
            for split in get_args(Split)
            for task in study.target.tasks(split)
        ], []
    known = ", ".join([study.live_batch, *batches(study), *task_batches(study)])
    raise InputError(
        f"there is no task batch '{batch}'; known are {known}. Bring trajectories in with "
        "`trace ingest`, or tasks with `trace watch`; if it is a live target's, give this command its "
        "settings too (targets.name and the others, in trace.toml or by --set)."
    )
