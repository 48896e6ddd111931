"""The asset `drift`: the newest batch of each target against all that came before."""

from __future__ import annotations

from trace_assets.assets.asset import StageCheck, StageResult, asset
from trace_assets.diagnosis.stability import drift
from trace_assets.records import Arrival, Drift, Label, TrajectoryHead
from trace_assets.resources.analysts import evidence_by_target
from trace_assets.study import Study


def newest_batches(study: Study) -> dict[str, str]:
    """Return, by target, the batch that came last through a watched folder and is labelled.

    Batches that were rolled out or ingested by hand have no time of arrival: they count as earlier.
    """
    labelled = set(study.store.partitions(Label))
    newest: dict[str, str] = {}
    for row in sorted(study.store.read(Arrival), key=lambda row: (row.taken_at, row.task_batch)):
        if row.task_batch in labelled:
            for target in study.store.frame(TrajectoryHead, row.task_batch)["target"].unique():
                newest[target] = row.task_batch
    return dict(sorted(newest.items()))


@asset(
    "drift",
    group="diagnosis",
    records=(Drift,),
    deps=[
        *("trajectories", "labels", "triage", "suspect_tasks", "lucky_passes", "capability_dictionary"),
        *("config/triage", "config/contrast"),
    ],
    checks={
        "no_drift": "In the newest batch of each target no capability's gap or coverage differs from earlier "
        "batches by more than chance. Warns, and stops nothing."
    },
    kinds=("parquet", "duckdb"),
    light=True,
)
def write_drift(study: Study) -> StageResult:
    """Gap and coverage in the newest batch of each watched target against all earlier batches."""
    newest = newest_batches(study)
    rows: list[Drift] = []
    for one in evidence_by_target(study):
        if one.target in newest:
            batch = newest[one.target]
            new = set(study.store.frame(TrajectoryHead, batch)["trajectory_id"].to_list())
            rows += drift(one.labels, one.triage, study.settings.contrast, one.target, batch, new)
    version = study.store.write(rows, Drift)
    moved = [row for row in rows if row.drifted]
    return StageResult(
        version,
        len(rows),
        {"compared": len(rows), "drifted": len(moved)},
        checks=(StageCheck("no_drift", not moved, _sentence(rows, moved), severity="warning"),),
    )


def _sentence(rows: list[Drift], moved: list[Drift]) -> str:
    if not rows:
        return "Nothing to compare: no batch of a watched folder follows another of its target."
    if not moved:
        batches = ", ".join(sorted({row.task_batch for row in rows}))
        return f"None of {len(rows)} figures left its band in {batches}."
    shown = "; ".join(_figures(row) for row in moved[:5])
    more = f"; and {len(moved) - 5} more (table `drift`)" if len(moved) > 5 else ""
    return f"{len(moved)} of {len(rows)} figures left their band: {shown}{more}."


def _figures(row: Drift) -> str:
    return (
        f"{row.measure} of {row.capability_id} was {row.before:.2f} [{row.before_low:.2f}, "
        f"{row.before_high:.2f}] (n = {row.n_before}) and is {row.now:.2f} [{row.now_low:.2f}, "
        f"{row.now_high:.2f}] (n = {row.n_now}) in {row.task_batch}"
    )
