"""The asset `repairs`: failed runs replayed with what they lack put right."""

from __future__ import annotations

from collections import Counter

from trace_assets.assets.asset import StageResult, asset
from trace_assets.diagnosis.repair.going_on import GoingOn
from trace_assets.diagnosis.repair.measure import measure
from trace_assets.records import BatchCapability, Label, Repair, Task, Trajectory
from trace_assets.report.asset_report.diagnosis import repairs_report
from trace_assets.resources.policy import open_policy
from trace_assets.rollouts.runner import Journal, closing_policy
from trace_assets.store.trajectories import read_trajectories
from trace_assets.study import Study
from trace_assets.system.processes import finish
from trace_assets.workflows.ingest import batches


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
