"""Where a task was sent, and how good the router is."""

from __future__ import annotations

from typing import ClassVar

from trace_assets.records.base import Json, Record

NO_ADAPTER = "none"
"""The choice of a router that leaves the base model as it is."""


class Route(Record):
    """Row of the table `routes`: one router's decision on one task."""

    table: ClassVar[str] = "routes"
    key: ClassVar[tuple[str, ...]] = ("router", "task_id")

    router: str
    """`classifier`, `label_logits` or `oracle`."""
    task_id: str
    choice: str
    """Adapter name, or `none`."""
    probabilities: Json
    """Choice -> probability; sums to 1."""


class RouterScore(Record):
    """Row of the table `router_scores`: how good a router is, over tasks with a known best choice."""

    table: ClassVar[str] = "router_scores"
    key: ClassVar[tuple[str, ...]] = ("router", "split")

    router: str
    split: str
    n: int
    accuracy: float | None
    """Share of tasks sent to the choice that the diagnosis' labels call for."""
    accuracy_low: float | None
    accuracy_high: float | None
    calibration_error: float | None
    """Expected calibration error over ten equal-width bins."""
    majority_share: float | None
    """What always choosing the most frequent choice would score: the floor."""
