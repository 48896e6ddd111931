"""The assets `lack_causes`, `repairs`, `failure_causes`: why each run failed, and what lets it pass."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Literal

from trace_assets.assets.asset import Figure, StageCheck, StageResult, asset
from trace_assets.assets.labels import capabilities_of
from trace_assets.diagnosis.expected.facts import Told
from trace_assets.diagnosis.failure_causes import Diagnosed, explain, settled
from trace_assets.diagnosis.llm.causes import Judged, judge_lacks
from trace_assets.diagnosis.repair.going_on import GoingOn
from trace_assets.diagnosis.repair.measure import measure
from trace_assets.records import (
    BatchCapability,
    Capability,
    Consensus,
    Contrast,
    FailureCause,
    Label,
    LackCause,
    Proposal,
    Repair,
    SelectedCapability,
    SingleLack,
    Task,
    ToldTask,
    Trajectory,
    Triage,
)
from trace_assets.report.asset_report.diagnosis import repairs_report
from trace_assets.report.asset_report.rollouts import causes_report
from trace_assets.resources.analysts import by_target, known_of, model_figures, open_model
from trace_assets.resources.inbox import batches
from trace_assets.resources.policy import open_policy
from trace_assets.rollouts.runner import Journal, closing_policy
from trace_assets.store.trajectories import read_trajectories
from trace_assets.study import Study
from trace_assets.system.processes import finish


@asset(
    "failure_causes",
    group="diagnosis",
    records=(FailureCause,),
    deps=[
        *("tasks", "trajectories", "triage", "capability_dictionary", "labels", "lack_causes"),
        *("contrast", "selected_capabilities", "repairs"),
    ],
)
def write_causes(study: Study) -> StageResult:
    """Why each run failed: whose fault, the decisive message, what was lacking, and how sure that is."""
    causes: list[FailureCause] = []
    for one in diagnosed_targets(study):
        causes += explain(one)
    version = study.store.write(causes, FailureCause)
    parties = Counter(f"{row.party}_failures" for row in causes)
    explained = sum(row.capability is not None for row in causes)
    asset_report = causes_report(
        causes, {row.capability_id: row.name for row in study.store.read(Capability)}
    )
    return StageResult(
        version,
        len(causes),
        {**dict(sorted(parties.items())), "with_capability": explained, "n": len(causes)},
        tables=asset_report.tables,
    )


def diagnosed_targets(study: Study) -> Sequence[Diagnosed]:
    """Return what is known of every target whose failures were put down to somebody."""
    store = study.store
    triage: dict[str, list[Triage]] = defaultdict(list)
    for row in store.read(Triage):
        triage[row.target].append(row)
    told: list[Told] = [*store.read(Task), *store.read(ToldTask)]
    tasks: dict[str, Told] = {}
    for task in told:
        tasks.setdefault(task.task_id, task)
    capabilities = store.read(Capability)
    labels = settled(
        (label for label in store.read(Label) if label.label == "LACKING"), store.read(Consensus)
    )
    contrasts, selected = store.read(Contrast), store.read(SelectedCapability)
    proposals, singles = store.read(Proposal), store.read(SingleLack)
    judged = {(row.trajectory_id, row.capability_id): row for row in store.read(LackCause)}
    tried = ("decisive", "not decisive")
    repaired = {
        (row.trajectory_id, row.capability_id): row.status == "decisive"
        for row in store.read(Repair)
        if row.status in tried and not (row.partial and row.status == "not decisive")
    }
    return [
        Diagnosed(
            trajectories=read_trajectories(store, target=target),
            triage=rows,
            capabilities=[one for one in capabilities if one.target == target],
            labels=labels,
            contrasts=[one for one in contrasts if one.target == target],
            selected=[one for one in selected if one.target == target],
            tasks=tasks,
            repaired=repaired,
            judged=judged,
            proposals=[one for one in proposals if one.target == target],
            singles=[one for one in singles if one.target == target],
        )
        for target, rows in sorted(triage.items())
    ]


# What the model that diagnosed wrote of why a capability is lacking.


@asset(
    "lack_causes",
    group="diagnosis",
    records=(LackCause,),
    deps=["tasks", "trajectories", "triage", "batch_capabilities", "labels", "config/labels"],
    partitions="task_batch",
    checks={"causes_complete": "Of every lack of a failed run the model said whether it decided the end."},
    unfinished=["causes_complete"],
)
def judge_batch(study: Study, batch: str) -> StageResult:
    """Whether what a failed run lacked is one of the reasons why it failed, where a model labels."""
    section, done = study.settings.labels, Judged()
    figures: dict[str, Figure] = {}
    if section.model and section.causes:
        failed = {row.trajectory_id for row in study.store.read(Triage, batch) if row.fault == "agent"}
        runs = [one for one in read_trajectories(study.store, batch) if one.trajectory_id in failed]
        labels, capabilities = study.store.read(Label, batch), capabilities_of(study, batch)
        with open_model(study, "lack_causes", batch) as (_, server):
            for target, group in by_target(runs).items():
                own = [one for one in capabilities if one.target == target]
                came = judge_lacks(server, section, group, labels, own, known_of(study, target, group, batch))
                done.causes += came.causes
                done.missing |= came.missing
                done.complete &= came.complete
                if not came.complete:
                    break
        figures = model_figures(server)
    version = study.store.write(done.causes, LackCause, batch)
    counts = Counter(f"decisive_{row.decisive}" for row in done.causes)
    n = len(done.causes)
    return StageResult(
        version, n, {**dict(sorted(counts.items())), "n": n, **figures}, checks=(_complete(done),)
    )


def _complete(done: Judged) -> StageCheck:
    if done.complete and not done.missing:
        return StageCheck("causes_complete", True, f"{len(done.causes)} lacks were judged.")
    said = f"{len(done.missing)} failed runs are not judged in full"
    if done.missing:
        said += f": {'; '.join(sorted({reason[:120] for reason in done.missing.values()})[:3])}"
    severity: Literal["error", "warning"] = "warning"
    if not done.complete:
        said += (
            ". The cap on spending was reached: raise analyst.cap_usd or analyst.cap_calls and run the same "
            "command again"
        )
    return StageCheck("causes_complete", False, f"{said}.", severity)


# Failed runs replayed with what a capability prescribes put right.


@asset(
    "repairs",
    group="diagnosis",
    records=(Repair,),
    deps=["tasks", "trajectories", "batch_capabilities", "labels", "config/targets", "config/repairs"],
    partitions="task_batch",
    door="loop",
    pool="gpu",
    by_policy=True,
)
def write_repairs(study: Study, batch: str) -> StageResult:
    """What repairing each lack of a failed run does to its reward, beside placebos.

    Only runs that were played here on the live target are replayed: nothing else can play their calls. The
    base policy is asked only where `repairs.go_on` allows it to go on from repaired runs.

    Raises:
        Unavailable: Something that the target or the policy needs is down.
    """
    played = _played_here(study, batch)
    if not any(one.success is False for one in played):
        return StageResult(study.store.write([], Repair, batch), 0)
    own = {row.task_id: row for row in study.store.read(Task, batch)}
    candidates = [
        row for row in study.store.read(BatchCapability, batch) if row.target == study.settings.targets.name
    ]
    done = finish(measure(study.target, own, played, candidates, study.store.read(Label, batch)))
    journal, going_on = Journal(study.home.journals / "repairs" / batch), None
    if (most := study.settings.repairs.go_on) and done.left_open:
        with closing_policy(open_policy(study)) as policy:
            going_on = GoingOn(policy, most, study.settings.rollouts.max_turns, journal)
            done = done.with_rows(finish(going_on.resolve(study.target, done.left_open)))
    went_on = going_on.played + going_on.from_journal if going_on is not None else 0
    rows = done.rows
    counts = Counter(row.status.replace(" ", "_") for row in rows)
    placebo = sum(bool(row.placebo_passed) for row in rows)
    asset_report = repairs_report(rows, {row.capability_id: row.name for row in candidates})
    return StageResult(
        study.store.write(rows, Repair, batch),
        len(rows),
        {
            **dict(sorted(counts.items())),
            "placebo_passed": placebo,
            "replays": done.replays,
            **({"went_on": went_on} if went_on else {}),
        },
        tables=asset_report.tables,
        spent={
            ("replays", "episodes"): float(done.replays),
            **({("rollouts", "episodes"): float(went_on)} if went_on else {}),
        },
        cost_usd=going_on.cost_usd if going_on is not None else 0.0,
        recorded=journal.clear,
    )


def _played_here(study: Study, batch: str) -> list[Trajectory]:
    if batch in batches(study):
        return []
    name = study.settings.targets.name
    return [one for one in read_trajectories(study.store, batch) if one.target == name]
