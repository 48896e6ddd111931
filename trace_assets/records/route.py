"""Where a task was sent, and how good the router is."""

from __future__ import annotations

from typing import ClassVar, Literal

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


class RouterRegret(Record):
    """Row of the table `router_regrets`: what following a router gains or loses against another choice.

    Both sides are composed from the same episodes, so nothing but the choices differs between them.
    """

    table: ClassVar[str] = "router_regrets"
    key: ClassVar[tuple[str, ...]] = ("router", "split", "reference")

    router: str
    split: str
    reference: Literal["oracle", "best_single", "base", "random"]
    """`random` is the expectation over a uniform choice among the base model and the adapters."""
    choice: str
    """The one variant that `best_single` or `base` always takes; empty for the others."""
    n_tasks: int
    """Tasks judged on both sides: the bootstrap resamples these."""
    router_rate: float | None
    """Mean over tasks of the pass rate under the router's choices."""
    reference_rate: float | None
    regret: float | None
    """Reference minus router: positive where the router loses."""
    regret_low: float | None
    regret_high: float | None
    """Paired bootstrap over tasks, 95 %."""
