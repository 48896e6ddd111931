"""What adapters do to each other in a sum, and by which rule a router sends tasks to sums."""

from __future__ import annotations

from typing import ClassVar, Literal

from trace_assets.records.base import Record


class SetEffect(Record):
    """Row of the table `set_effects`: what one adapter adds to a sum, on validation tasks sent to the sum.

    The difference is the sum's pass rate minus that of the same sum without the adapter, on the same tasks;
    the interval is a paired bootstrap over tasks, widened for all comparisons of the table.
    """

    table: ClassVar[str] = "set_effects"
    key: ClassVar[tuple[str, ...]] = ("choice", "adapter")

    choice: str
    """The set, such as `cancel+window`."""
    adapter: str
    """The member that is judged; empty for the whole set, which is compared with the base model."""
    without: str
    """What it is compared with: the set without the member, `none` for the base model."""
    alone: bool
    """Whether a router may choose the member alone; for the whole set, whether it may choose any of them."""
    n_tasks: int
    """Validation tasks that the router sends to the set and that were judged on both sides."""
    rate: float | None
    """Pass rate of the set on these tasks."""
    rate_without: float | None
    """Of what it is compared with, on the same tasks."""
    delta: float | None
    """What the member adds: `rate` minus `rate_without`."""
    delta_low: float | None
    delta_high: float | None
    confidence: float
    """Of the interval: 1 - .05 / the number of comparisons that were looked at."""
    verdict: Literal["helps", "unclear", "harms"]
    """Helps: the interval lies above 0. Harms: below 0."""
    served: bool
    """Whether the set may act: no row of it says harm, and what may not act alone is shown to help."""
    reason: str
    """In words, with the figures."""
