"""The asset `batch_capabilities`: what each batch of trajectories is labelled with."""

from __future__ import annotations

from trace_assets.assets.asset import asset
from trace_assets.assets.result import StageResult
from trace_assets.records import BatchCapability, Capability, TrajectoryHead
from trace_assets.study import Study


@asset(
    "batch_capabilities",
    group="diagnosis",
    records=(BatchCapability,),
    deps=["trajectories", "capability_dictionary"],
    partitions="task_batch",
    light=True,
)
def write_batch_capabilities(study: Study, batch: str) -> StageResult:
    """What a batch is labelled with: a cut-off, so that a longer dictionary leaves old labels alone."""
    targets = set(study.store.frame(TrajectoryHead, batch)["target"].to_list())
    rows = [
        BatchCapability(
            task_batch=batch,
            **{
                name: getattr(row, name)
                for name in BatchCapability.model_fields
                if name in Capability.model_fields
            },
        )
        for row in study.store.read(Capability)
        if row.target in targets
    ]
    version = study.store.write(rows, BatchCapability, batch)
    return StageResult(version, len(rows), {"candidates": len(rows), "targets": len(targets)})


def capabilities_of(study: Study, batch: str) -> list[Capability]:
    """Return what a batch is labelled with, as capabilities without their proposals."""
    return [
        Capability(
            **{
                name: getattr(row, name)
                for name in Capability.model_fields
                if name in BatchCapability.model_fields
            }
        )
        for row in study.store.read(BatchCapability, batch)
    ]
