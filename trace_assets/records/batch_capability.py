"""What a batch of trajectories is labelled with."""

from __future__ import annotations

from typing import ClassVar

from trace_assets.records.base import Json, Record


class BatchCapability(Record):
    """Row of the table `batch_capabilities`: a candidate of one of the batch's targets.

    This is a firewall: it holds what decides a label and nothing else, so that a new batch, another target's
    candidates or a changed count of proposals do not have old batches labelled again.
    """

    table: ClassVar[str] = "batch_capabilities"
    key: ClassVar[tuple[str, ...]] = ("task_batch", "capability_id")

    task_batch: str
    capability_id: str
    target: str
    name: str
    description: str
    analyst: str
    detector: str | None = None
    detector_args: Json = {}
