"""The stage `tasks`: the live target's own tasks, those of a task file, or those of ingested trajectories."""

from __future__ import annotations

from collections import Counter
from typing import get_args

from trace_assets.errors import InputError
from trace_assets.records import Split, Task, ToldTask
from trace_assets.stages.ingest import batches, inbox
from trace_assets.stages.result import StageResult
from trace_assets.stages.task_inbox import task_batches, task_inbox
from trace_assets.store.content import text_version
from trace_assets.study import Study


def write_tasks(study: Study, batch: str) -> StageResult:
    """Write one batch of the tables `tasks` and `told_tasks`.

    Raises:
        InputError: The batch is neither the live target's nor in an inbox.
    """
    told: list[ToldTask] = []
    if batch in batches(study):
        tasks = inbox(study, batch).read(Task)
        told = inbox(study, batch).read(ToldTask)
    elif batch in task_batches(study):
        tasks = task_inbox(study).read(Task, batch)
    elif batch == study.live_batch:
        tasks = [
            task.model_copy(update={"task_batch": batch})
            for split in get_args(Split)
            for task in study.target.tasks(split)
        ]
    else:
        known = ", ".join([study.live_batch, *batches(study), *task_batches(study)])
        raise InputError(
            f"there is no task batch '{batch}'; known are {known}. Bring trajectories in with "
            "`trace ingest`, or tasks with `trace watch`; if it is a live target's, give this command its "
            "settings too (targets.name and the others, in trace.toml or by --set)."
        )
    version = study.store.write(tasks, Task, batch)
    if told:
        version = text_version(version, study.store.write(told, ToldTask, batch))
    else:
        study.store.drop(ToldTask, batch)
    splits = Counter(task.split for task in tasks)
    return StageResult(version, len(tasks), {f"{split}_tasks": n for split, n in sorted(splits.items())})
