"""Whether the live target is in use: what is planned without being named belongs to targets in the store."""

from __future__ import annotations

from trace_assets.records import BaseCheckpoint, Task, TrajectoryHead
from trace_assets.settings import Targets
from trace_assets.stages.ingest import batches
from trace_assets.stages.made_with import rolled_out
from trace_assets.stages.task_inbox import task_batches, task_inbox
from trace_assets.study import Study


def live_in_use(study: Study) -> bool:
    """Whether anything belongs to the live target, or nothing is here yet.

    The settings name a live target always, the embedded one by default. Where all trajectories are those of
    other targets, that name alone is no wish to train its agent; another name is.
    """
    section = study.settings.targets
    if section.path or section.name != Targets().name:
        return True
    if study.live_batch in rolled_out(study) or any(
        row.pass_rate is not None for row in study.store.read(BaseCheckpoint)
    ):
        return True
    return not (batches(study) or study.store.partitions(TrajectoryHead))


def is_foreign(study: Study, batch: str) -> bool:
    """Whether a batch was, or is to be, rolled out on another target than the one the settings name."""
    if batch == study.live_batch or batch in batches(study):
        return False
    if batch in task_batches(study):
        rows = task_inbox(study).read(Task, batch)
        return bool(rows) and rows[0].target != study.settings.targets.name
    return True
