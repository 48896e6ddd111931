"""What an adapter does to tasks that it was not trained for."""

from __future__ import annotations

from typing import ClassVar, Literal

from trace_assets.records.base import Record


class NoHarm(Record):
    """Row of the table `no_harm`: one adapter on validation tasks of the target, own skill and the rest.

    Differences are the adapter's pass rate minus the base model's on the same tasks; intervals are
    paired bootstraps over tasks, 95 %.
    """

    table: ClassVar[str] = "no_harm"
    key: ClassVar[tuple[str, ...]] = ("adapter",)

    adapter: str
    """The adapter's name."""
    own_skills: tuple[str, ...]
    """The generator's tags that count as its own; empty when none was found."""
    own_n: int
    """Own tasks judged under both the base model and the adapter."""
    own_base: float | None
    own_adapter: float | None
    own_delta: float | None
    own_delta_low: float | None
    own_delta_high: float | None
    other_n: int
    """Tasks of other skills judged under both."""
    other_base: float | None
    other_adapter: float | None
    other_delta: float | None
    other_delta_low: float | None
    other_delta_high: float | None
    verdict: Literal["harmless", "unclear", "harmful"]
    """Harmful: the interval on other tasks lies below 0. Harmless: its lower bound is above minus the
    margin. Unclear: neither is shown."""
    reason: str
    """The verdict in words with the figures."""
