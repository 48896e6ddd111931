"""The assets `tasks` and `trajectories`: what is to be done, and what was done or was ingested.

Tasks are the live target's own, those of a task file, or those of ingested trajectories.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import get_args

import polars as pl

from trace_assets.assets.asset import Figure, StageCheck, StageResult, asset
from trace_assets.errors import InputError
from trace_assets.policies.protocol import Policy
from trace_assets.records import (
    CheckRow,
    LedgerEntry,
    MessageRow,
    Split,
    Task,
    ToldTask,
    Trajectory,
    TrajectoryHead,
)
from trace_assets.report.asset_report.rollouts import trajectories_report
from trace_assets.report.formatting import count
from trace_assets.resources.analysts import keep_described
from trace_assets.resources.inbox import batches, inbox, task_batches, task_inbox
from trace_assets.resources.policy import open_policy, policy_home
from trace_assets.rollouts.episode import Trial, run_identity, trajectory_id
from trace_assets.rollouts.parallel import run_parallel, team_for
from trace_assets.rollouts.runner import Journal, closing_policy, run_rollouts
from trace_assets.stats.intervals import wilson
from trace_assets.store.content import text_version
from trace_assets.store.trajectories import link_trajectories, read_trajectories, write_trajectories
from trace_assets.study import Study
from trace_assets.targets.protocol import Target, provenance_of
from trace_assets.workflows.finished_work import finished_work, refusal, would_replace


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


@asset(
    "trajectories",
    group="rollouts",
    records=(TrajectoryHead, MessageRow, CheckRow),
    deps=["tasks", "base_model", "config/rollouts", "config/targets"],
    partitions="task_batch",
    checks={"few_faults": "At most one episode in twenty broke and was not judged."},
    kinds=("parquet", "pytorch"),
    pool="gpu",
    by_policy=True,
    together=True,
)
def write_batch(study: Study, batch: str, again: bool = False) -> StageResult:
    """Everything the base policy did on the discovery tasks, K trials each, or what was ingested.

    Finished episodes are not played again, nor replaced, unless the run says so: tag `trace/again` = `true`.

    Args:
        study: The study.
        batch: The task batch.
        again: Play also in the place of finished episodes: those that other settings were in force for, and
            all of them where none is missing or broke.

    Raises:
        InputError: The batch has no tasks, or finished episodes would be lost.
    """
    recorded: Callable[[], None] | None = None
    live = batch not in batches(study)
    if not live:
        source = inbox(study, batch)
        version = link_trajectories(source, study.store, batch)
        trajectories: Sequence[TrajectoryHead] = source.read(TrajectoryHead)
        spent: dict[tuple[str, str], float] = {}
        new: Sequence[TrajectoryHead] = trajectories  # paid by whoever made them; the report tells it apart
    else:
        before = {one.trajectory_id: one for one in read_trajectories(study.store, batch)}
        journal = _journal(study, batch)
        played = trajectories = _roll_out(study, batch, journal, before, again)
        version = write_trajectories(study.store, played, batch)
        # Trials that broke stay open: made once more (`trace sync --again`), only they are played.
        whole = not any(one.fault is not None for one in played)
        recorded = journal.clear if whole and _holds_no_more(journal, played) else None
        known = before if _is_booked(study, batch) else {}  # not so after a kill just before it was
        new = [one for one in played if known.get(one.trajectory_id) != one]
        spent = {("rollouts", "episodes"): float(len(new))}
        keep_described(study)
    faults = sum(one.fault is not None for one in trajectories)
    cost = sum(one.cost_usd or 0.0 for one in new)
    tasks = {task.task_id: task for task in study.store.read(Task, batch)}
    asset_report = trajectories_report(trajectories, tasks)
    return StageResult(
        version,
        len(trajectories),
        {
            **pass_figures(trajectories),
            "faults": faults,
            "cost_usd": round(cost, 6),
            **(provenance_of(study.target) if live else {}),
        },
        pages=asset_report.pages,
        tables=asset_report.tables,
        checks=(
            StageCheck(
                "few_faults",
                faults <= 0.05 * len(trajectories),
                f"{faults} of {len(trajectories)} episodes broke and were not judged"
                + (
                    f"; `trace sync --again trajectories[{batch}]` plays these once more."
                    if faults and live
                    else "."
                ),
                severity="warning",
            ),
        ),
        spent=spent,
        cost_usd=cost,
        recorded=recorded,
    )


def pass_figures(trajectories: Sequence[TrajectoryHead]) -> dict[str, Figure]:
    """Return the pass rate of judged trajectories with its Wilson interval and n, and their mean reward."""
    judged = [one for one in trajectories if one.success is not None]
    passed = sum(bool(one.success) for one in judged)
    if not judged:
        return {"n": 0}
    low, high = wilson(passed, len(judged))
    rewards = [one.reward for one in judged if one.reward is not None]
    return {
        "pass_rate": passed / len(judged),
        "pass_rate_low": low,
        "pass_rate_high": high,
        **({"reward": sum(rewards) / len(rewards)} if rewards else {}),
        "n": len(judged),
    }


def _journal(study: Study, batch: str) -> Journal:
    """Return where finished episodes of an interrupted run lie: another policy or setting, another place."""
    key = text_version(policy_home(study), study.settings.rollouts.fingerprint(), study.target.version)
    return Journal(study.home.journals / "rollouts" / f"{batch}-{key}")


def _is_booked(study: Study, batch: str) -> bool:
    """Whether the ledger holds what a batch took when it was made before."""
    ledger = study.store.frame(LedgerEntry)
    own = (pl.col("asset") == "trajectories") & (pl.col("partition") == batch)
    return bool(ledger.filter(own).height)


def _holds_no_more(journal: Journal, stored: Iterable[Trajectory]) -> bool:
    """Whether all that a journal holds is stored; not so where a run that was to replace it was killed."""
    rows = {one.trajectory_id: one for one in stored}
    return all(rows.get(name) == one for name, one in journal.load().items())


def _roll_out(
    study: Study, batch: str, journal: Journal, before: Mapping[str, Trajectory], again: bool
) -> list[Trajectory]:
    section = study.settings.rollouts
    every = study.store.read(Task, batch)
    if not every:
        raise InputError(
            f"batch '{batch}' has no tasks yet; run `trace sync --select tasks --select trajectories`."
        )
    tasks = [task for task in every if task.split == "discovery"]
    trials = [
        Trial(task=task, trial=trial, seed=section.seed + trial)
        for task in tasks
        for trial in range(section.trials)
    ]
    with closing_policy(open_policy(study)) as policy:
        identity = run_identity(study.target, policy, section.max_turns)
        wanted = {trajectory_id(identity, trial) for trial in trials}
        done = {name: one for name, one in before.items() if one.fault is None}
        if not again and (lost := done.keys() - wanted):
            why = would_replace(study, "trajectories", batch) or (
                f"{len(lost):,} of them were played by another agent, on other tasks or with other settings"
            )
            raise InputError(refusal(f"trajectories[{batch}]", count(len(done), "episode"), why))
        if again and wanted <= done.keys():  # nothing is open, so all are played
            if _holds_no_more(journal, done.values()):
                journal.clear()
            done = {}
        waiting = [one for one in trials if trajectory_id(identity, one) not in done]
        # A model of our own is one batch, and answers alike to the last bit only in batches of one shape.
        if section.engine == "openai" and team_for(waiting) is not None:
            played = run_parallel(
                open_live,
                waiting,
                processes=1,
                max_turns=section.max_turns,
                concurrency=section.concurrency,
                journal=journal,
                title=f"rollouts of {batch}",
            )
            kept = [done[name] for name in wanted & done.keys()]
            return sorted([*kept, *played], key=lambda one: one.trajectory_id)
        return run_rollouts(
            study.target,
            trials,
            policy,
            max_turns=section.max_turns,
            concurrency=section.concurrency,
            journal=journal,
            known=done,
            title=f"rollouts of {batch}",
        )


def open_live() -> tuple[Target, Policy]:
    """Open target and policy of the study that the environment names."""
    study = Study.open()
    return study.target, open_policy(study)
