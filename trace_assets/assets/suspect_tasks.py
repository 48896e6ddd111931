"""The asset `suspect_tasks`: tasks whose ground truth is doubtful, over all batches together."""

from __future__ import annotations

from trace_assets.assets.asset import StageResult, asset
from trace_assets.diagnosis.expected.facts import Told
from trace_assets.diagnosis.expected.suspects import suspect_tasks
from trace_assets.records import SuspectTask, Task, ToldTask
from trace_assets.store.trajectories import read_trajectories
from trace_assets.study import Study


@asset(
    "suspect_tasks",
    group="diagnosis",
    records=(SuspectTask,),
    deps=["tasks", "trajectories", "config/triage"],
)
def write_suspects(study: Study) -> StageResult:
    """Tasks whose ground truth is doubtful, with the evidence; those that are wrong are put aside."""
    known: dict[str, Told] = {}
    told: list[Told] = [*study.store.read(Task), *study.store.read(ToldTask)]
    for task in told:
        known.setdefault(task.task_id, task)
    put_aside = study.settings.triage.suspect_tasks == "aside"
    rows = [
        row.model_copy(update={"aside": put_aside and row.grade == "wrong"})
        for row in suspect_tasks(read_trajectories(study.store), known)
    ]
    version = study.store.write(rows, SuspectTask)
    wrong = {row.task_id for row in rows if row.grade == "wrong"}
    aside = aside_tasks(study)
    return StageResult(
        version,
        len(rows),
        {
            "wrong_tasks": len(wrong),
            "suspected_tasks": len({row.task_id for row in rows} - wrong),
            "put_aside": len(aside),
            "n": len(known),
        },
        tables={
            "suspect tasks": [
                {
                    "task": row.task_id,
                    "grade": row.grade,
                    "put aside": row.aside,
                    "passed": row.n_passed,
                    "failed": row.n_failed,
                    "why": row.detail,
                }
                for row in rows[:MOST]
            ]
        },
    )


MOST = 50
"""Rows that are shown."""


def aside_tasks(study: Study) -> frozenset[str]:
    """Return the tasks whose runs enter neither discovery nor contrast."""
    return frozenset(row.task_id for row in study.store.read(SuspectTask) if row.aside)
