"""How far a capability moved between what was known and what came new."""

from __future__ import annotations

from typing import ClassVar, Literal

from trace_assets.records.base import Record


class Drift(Record):
    """Row of the table `drift`: one figure of one capability, in a new batch against all earlier ones.

    Intervals are simultaneous over all rows of the batch and target: see `diagnosis/drift.py`.
    """

    table: ClassVar[str] = "drift"
    key: ClassVar[tuple[str, ...]] = ("task_batch", "capability_id", "measure")

    task_batch: str
    """The newest batch of the target."""
    target: str
    capability_id: str
    measure: Literal["gap", "coverage"]
    """`gap` is ER- minus ER+, `coverage` the share of the agent's failures that lack the capability."""
    before: float | None
    """In the batches that came earlier; null where it is undefined, as everywhere."""
    before_low: float | None
    before_high: float | None
    now: float | None
    """In the new batch."""
    now_low: float | None
    now_high: float | None
    change: float | None
    """`now` minus `before`."""
    change_low: float | None
    change_high: float | None
    n_before: int
    """Trajectories behind `before`: relevant ones for a gap, failures for a coverage."""
    n_now: int
    confidence: float
    """Of each interval, so that all of them hold together at the confidence of the section `contrast`."""
    drifted: bool
    """The interval of the change leaves out 0."""
