"""The asset `triage`: to whom each failure is put down."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from trace_assets.assets.asset import Figure, StageCheck, StageResult, asset
from trace_assets.diagnosis.expected.diffs import action_diffs
from trace_assets.diagnosis.llm.triage import ModelTriage
from trace_assets.diagnosis.overrides import overruled, sound_tasks
from trace_assets.diagnosis.tool_use import tool_use
from trace_assets.diagnosis.triage import Known, triage
from trace_assets.records import ActionDiff, Task, ToldTask, ToolUse, Triage
from trace_assets.report.asset_report.rollouts import triage_report
from trace_assets.resources.analysts import by_target, context_of, model_figures, open_model
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
