"""The asset `failure_causes`: why each run failed, one row a failure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from trace_assets.assets.asset import StageResult, asset
from trace_assets.diagnosis.expected.facts import Told
from trace_assets.diagnosis.failure_causes import Diagnosed, explain, settled
from trace_assets.records import (
    Capability,
    Consensus,
    Contrast,
    FailureCause,
    Label,
    LackCause,
    Proposal,
    Repair,
    SelectedCapability,
    Task,
    ToldTask,
    Triage,
)
from trace_assets.report.asset_report.rollouts import causes_report
from trace_assets.store.trajectories import read_trajectories
from trace_assets.study import Study


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
    proposals = store.read(Proposal)
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
        )
        for target, rows in sorted(triage.items())
    ]
