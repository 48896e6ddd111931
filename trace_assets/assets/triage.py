"""The assets `triage`, `suspect_tasks` and `lucky_passes`: whose failures there were, what is doubtful."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

from trace_assets.assets.asset import Figure, StageCheck, StageResult, asset
from trace_assets.diagnosis.attribution.case import Known
from trace_assets.diagnosis.expected.diffs import action_diffs
from trace_assets.diagnosis.expected.doubts import lucky_passes
from trace_assets.diagnosis.expected.facts import Facts, Told
from trace_assets.diagnosis.expected.suspects import suspect_tasks
from trace_assets.diagnosis.llm.causes import ModelTriage
from trace_assets.diagnosis.overrides import check_names, overruled, overruled_suspects, sound_tasks
from trace_assets.diagnosis.triage import tool_use, triage
from trace_assets.records import ActionDiff, LuckyPass, SuspectTask, Task, ToldTask, ToolUse, Triage
from trace_assets.report.asset_report.rollouts import triage_report
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
    sound = sound_tasks(section.task_overrides)
    every = Known.of(trajectories, told)
    without = {task: found for task, found in every.doubts.items() if task not in sound}
    seen = replace(every, doubts=without)
    figures: dict[str, Figure] = {}
    complete = True
    if section.model:
        contexts = {
            name: context_of(study, name, runs, outcomes_known=True)
            for name, runs in by_target(trajectories).items()
        }
        with open_model(study, "triage", batch) as (_, server):
            look = ModelTriage(server, section.model, section.transcript_tokens, told, contexts)
            rows = triage(trajectories, look, tasks=told, known=seen)
        figures, complete = model_figures(server), look.complete
        if look.missing:
            figures["left_to_the_rules"] = len(look.missing)
    else:
        rows = triage(trajectories, tasks=told, known=seen)
    rows = [overruled(row, section.run_overrides) for row in rows]
    diffs, used = action_diffs(trajectories, told), tool_use(trajectories)
    version = text_version(
        study.store.write(rows, Triage, batch),
        study.store.write(diffs, ActionDiff, batch),
        study.store.write(used, ToolUse, batch),
    )
    faults = Counter(f"{row.fault}_faults" for row in rows if row.fault is not None)
    outcomes = Counter(row.outcome for row in rows)
    asset_report = triage_report(rows, diffs, used)
    return StageResult(
        version,
        len(rows),
        {**dict(sorted(outcomes.items())), **dict(sorted(faults.items())), "n": len(rows), **figures},
        pages=asset_report.pages,
        tables=asset_report.tables,
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
