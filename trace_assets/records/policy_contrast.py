"""Two policies on the same tasks: what one lacks and the other does not."""

from __future__ import annotations

from typing import ClassVar

from trace_assets.records.base import Record


class PolicyContrast(Record):
    """Row of the table `policy_contrast`: one capability under a weaker and a stronger policy.

    The stronger one is that with the higher pass rate on the tasks both were tried on. A row with an empty
    `capability_id` compares the pass rates: `rate` is then the share of failures put down to the agent.
    Rates are null where no shared task needs the capability under both.
    """

    table: ClassVar[str] = "policy_contrast"
    key: ClassVar[tuple[str, ...]] = ("target", "weak", "strong", "capability_id")

    target: str
    weak: str
    strong: str
    capability_id: str
    name: str
    weak_rate: float | None
    """LACKING / (LACKING + PRESENT) under the weaker policy: mean over shared tasks."""
    weak_low: float | None
    weak_high: float | None
    strong_rate: float | None
    strong_low: float | None
    strong_high: float | None
    difference: float | None
    """Weak minus strong: how much less the stronger one lacks it; paired by task."""
    difference_low: float | None
    difference_high: float | None
    p_value: float | None
    """Two-sided, from swapping the policies within tasks."""
    q_value: float | None
    """Benjamini-Hochberg over the capabilities of this pair."""
    n_tasks: int
    """Tasks that need it under both policies."""
    n_weak: int
    """Trials behind it under the weaker policy."""
    n_strong: int
    n_mended: int
    """Tasks in which it is lacking less under the stronger policy."""
    n_broken: int
    """Tasks in which it is lacking more."""
    n_gained: int
    """Tasks that the stronger policy passes more often (those mended among them, for a capability)."""
    n_lost: int
    """Tasks that it passes less often (those broken among them, for a capability)."""
