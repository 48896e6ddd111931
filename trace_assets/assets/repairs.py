"""The asset `repairs`: failed runs replayed with what they lack put right."""

from __future__ import annotations

from collections import Counter

from trace_assets.assets.asset import asset
from trace_assets.assets.result import StageResult
from trace_assets.diagnosis.repair.measure import measure
from trace_assets.records import BatchCapability, Label, Repair, Task, Trajectory
from trace_assets.report.asset_report.diagnosis import repairs_exhibit
from trace_assets.store.trajectories import read_trajectories
from trace_assets.study import Study
from trace_assets.system.processes import finish
from trace_assets.workflows.ingest import batches


@asset(
    "repairs",
    group="diagnosis",
    records=(Repair,),
    deps=["tasks", "trajectories", "batch_capabilities", "labels", "config/targets"],
    partitions="task_batch",
    door="loop",
)
def write_repairs(study: Study, batch: str) -> StageResult:
    """What repairing each lack of a failed run does to its reward, beside placebos; asks no model.

    Only runs that were played here on the live target are replayed: nothing else can play their calls.

    Raises:
        Unavailable: Something that the target needs is down.
    """
    played = _played_here(study, batch)
    if not any(one.success is False for one in played):
        return StageResult(study.store.write([], Repair, batch), 0)
    own = {row.task_id: row for row in study.store.read(Task, batch)}
    candidates = [
        row for row in study.store.read(BatchCapability, batch) if row.target == study.settings.targets.name
    ]
    done = finish(measure(study.target, own, played, candidates, study.store.read(Label, batch)))
    rows = done.rows
    counts = Counter(row.status.replace(" ", "_") for row in rows)
    placebo = sum(bool(row.placebo_passed) for row in rows)
    exhibit = repairs_exhibit(rows, {row.capability_id: row.name for row in candidates})
    return StageResult(
        study.store.write(rows, Repair, batch),
        len(rows),
        {**dict(sorted(counts.items())), "placebo_passed": placebo, "replays": done.replays},
        tables=exhibit.tables,
        spent={("replays", "episodes"): float(done.replays)},
    )


def _played_here(study: Study, batch: str) -> list[Trajectory]:
    if batch in batches(study):
        return []
    name = study.settings.targets.name
    return [one for one in read_trajectories(study.store, batch) if one.target == name]
