"""The assets `suspect_tasks`, whose ground truth is doubtful, and `lucky_passes`, which say little."""

from __future__ import annotations

from collections import Counter, defaultdict

from trace_assets.assets.asset import StageResult, asset
from trace_assets.diagnosis.expected.facts import Facts, Told
from trace_assets.diagnosis.expected.lucky import lucky_passes
from trace_assets.diagnosis.expected.suspects import suspect_tasks
from trace_assets.diagnosis.overrides import check_names, overruled_suspects
from trace_assets.records import LuckyPass, SuspectTask, Task, ToldTask
from trace_assets.resources.analysts import aside_tasks, by_target, open_detectors
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
    section, runs = study.settings.triage, read_trajectories(study.store)
    # Here and not batch by batch: a run or task of another batch is no unknown one.
    check_names("triage.run_overrides", "run", section.run_overrides, {one.trajectory_id for one in runs})
    check_names(
        "triage.task_overrides", "task that was played", section.task_overrides, {one.task_id for one in runs}
    )
    put_aside = section.suspect_tasks == "aside"
    rows = [
        row.model_copy(update={"aside": put_aside and row.grade == "wrong"})
        for row in suspect_tasks(runs, known)
    ]
    rows = overruled_suspects(rows, section.task_overrides, runs)
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


@asset(
    "lucky_passes",
    group="diagnosis",
    records=(LuckyPass,),
    deps=["tasks", "trajectories", "suspect_tasks", "config/triage"],
)
def write_lucky(study: Study) -> StageResult:
    """Passed runs that needed no change, broke the policy, or changed something else than is expected."""
    told: list[Told] = [*study.store.read(Task), *study.store.read(ToldTask)]
    tasks: dict[str, Told] = {}
    for task in told:
        tasks.setdefault(task.task_id, task)
    suspects: dict[str, list[SuspectTask]] = defaultdict(list)
    for row in study.store.read(SuspectTask):
        suspects[row.target].append(row)
    kinds = study.settings.triage.lucky_passes
    rows: list[LuckyPass] = []
    passed = 0
    for target, runs in by_target(read_trajectories(study.store)).items():
        facts = Facts(runs, tasks)
        corpus = open_detectors(study, target, proposing=True).corpus(runs)
        rows += lucky_passes(facts, corpus, suspects[target])
        passed += sum(one.success is True for one in runs)
    rows = [row.model_copy(update={"aside": row.kind in kinds}) for row in rows]
    version = study.store.write(rows, LuckyPass)
    counts = Counter(row.kind for row in rows)
    return StageResult(
        version,
        len(rows),
        {
            **dict(sorted(counts.items())),
            "put_aside": len({row.trajectory_id for row in rows if row.aside}),
            "n": passed,
        },
        tables={
            "lucky passes": [
                {
                    "run": row.trajectory_id,
                    "kind": row.kind,
                    "put aside": row.aside,
                    "why": row.detail,
                }
                for row in rows[:MOST]
            ]
        },
    )
