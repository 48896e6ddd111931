"""The stage `batch_capabilities`: what each batch of trajectories is labelled with."""

from __future__ import annotations

from trace_assets.records import BatchCapability, Capability, TrajectoryHead
from trace_assets.stages.result import StageResult
from trace_assets.study import Study


def write_batch_capabilities(study: Study, batch: str) -> StageResult:
    """Write one batch of the table `batch_capabilities`: the candidates of the batch's targets.

    Its version moves only when what decides a label moves, so a dictionary that another batch made longer
    leaves the labels of this one alone.
    """
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
