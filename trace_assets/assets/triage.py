"""The assets `triage`, `suspect_tasks` and `lucky_passes`: what an outcome says, and of which ones little."""

from __future__ import annotations

from collections import Counter, defaultdict

from trace_assets.assets.asset import Figure, StageCheck, StageResult, asset
from trace_assets.diagnosis.expected import action_diffs
from trace_assets.diagnosis.expected.facts import Facts, Told
from trace_assets.diagnosis.expected.lucky import lucky_passes
from trace_assets.diagnosis.expected.suspects import suspect_tasks
from trace_assets.diagnosis.failure_causes import tool_use
from trace_assets.diagnosis.llm.labelling import ModelTriage
from trace_assets.diagnosis.triage import triage
from trace_assets.records import (
    ActionDiff,
    LuckyPass,
    SuspectTask,
    Task,
    ToldTask,
    ToolUse,
    Triage,
)
from trace_assets.report.asset_report.rollouts import triage_exhibit
from trace_assets.resources.analysts import (
    aside_tasks,
    by_target,
    context_of,
    model_figures,
    open_detectors,
    open_model,
)
from trace_assets.store.content import text_version
from trace_assets.store.trajectories import read_trajectories
from trace_assets.study import Study

MOST = 50
"""Rows that are shown."""


@asset(
    "triage",
    group="diagnosis",
    records=(Triage, ActionDiff, ToolUse),
    deps=["tasks", "trajectories", "config/triage"],
    partitions="task_batch",
    checks={"triage_complete": "Every failure was looked at, by the rules and by the model if one is set."},
    blocking=["triage_complete"],
    unfinished=["triage_complete"],
)
def triage_batch(study: Study, batch: str) -> StageResult:
    """To whom each failure is put down, and how it differs from what was expected."""
    # Of this batch alone, or another batch's tasks would have it made again.
    known: list[Task | ToldTask] = [*study.store.read(Task, batch), *study.store.read(ToldTask, batch)]
    told = {task.task_id: task for task in known}
    trajectories, section = read_trajectories(study.store, batch), study.settings.triage
    figures: dict[str, Figure] = {}
    complete = True
    if section.model:
        targets = sorted({one.target for one in trajectories})
        contexts = {name: context_of(study, name, outcomes_known=True) for name in targets}
        with open_model(study, "triage", batch) as (_, server):
            look = ModelTriage(server, section.model, section.transcript_tokens, told, contexts)
            rows = triage(trajectories, look, tasks=told)
        figures, complete = model_figures(server), look.complete
        if look.missing:
            figures["left_to_the_rules"] = len(look.missing)
    else:
        rows = triage(trajectories, tasks=told)
    diffs, used = action_diffs(trajectories, told), tool_use(trajectories)
    version = text_version(
        study.store.write(rows, Triage, batch),
        study.store.write(diffs, ActionDiff, batch),
        study.store.write(used, ToolUse, batch),
    )
    faults = Counter(f"{row.fault}_faults" for row in rows if row.fault is not None)
    outcomes = Counter(row.outcome for row in rows)
    exhibit = triage_exhibit(rows, diffs, used)
    return StageResult(
        version,
        len(rows),
        {**dict(sorted(outcomes.items())), **dict(sorted(faults.items())), "n": len(rows), **figures},
        pages=exhibit.pages,
        tables=exhibit.tables,
        checks=(
            StageCheck(
                "triage_complete",
                complete,
                "every failure was looked at."
                if complete
                else "the cap on spending was reached before every failure was looked at; raise "
                "analyst.cap_usd or analyst.cap_calls and run the same command again.",
            ),
        ),
    )


@asset(
    "suspect_tasks",
    group="diagnosis",
    records=(SuspectTask,),
    deps=["tasks", "trajectories", "config/triage"],
)
def write_suspects(study: Study) -> StageResult:
    """Tasks whose ground truth is doubtful, with the evidence; those that are wrong are put aside."""
    known = _known_tasks(study)
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


@asset(
    "lucky_passes",
    group="diagnosis",
    records=(LuckyPass,),
    deps=["tasks", "trajectories", "suspect_tasks", "config/triage"],
)
def write_lucky(study: Study) -> StageResult:
    """Passed runs that needed no change, broke the policy, or changed something else than is expected."""
    tasks = _known_tasks(study)
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


def _known_tasks(study: Study) -> dict[str, Told]:
    """Return what is known of each task, by its id: a task itself before what was told of one."""
    told: list[Told] = [*study.store.read(Task), *study.store.read(ToldTask)]
    known: dict[str, Told] = {}
    for task in told:
        known.setdefault(task.task_id, task)
    return known
