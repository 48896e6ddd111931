"""The contrast between failures and successes, and what was selected from it."""

from __future__ import annotations

from typing import ClassVar

from trace_assets.records.base import Json, Record


class Contrast(Record):
    """Row of the table `contrast`: one capability's error rates and gap, with their uncertainty.

    Rates are null where their denominator is empty. Intervals are 95 % unless settings say otherwise.
    """

    table: ClassVar[str] = "contrast"
    key: ClassVar[tuple[str, ...]] = ("capability_id",)

    capability_id: str
    target: str
    er_failed: float | None
    """ER-: LACKING / (LACKING + PRESENT) over failed trajectories."""
    er_failed_low: float | None
    er_failed_high: float | None
    er_passed: float | None
    """ER+: the same over passed trajectories."""
    er_passed_low: float | None
    er_passed_high: float | None
    gap: float | None
    """Contrastive gap, ER- minus ER+."""
    gap_low: float | None
    gap_high: float | None
    coverage: float | None
    """LACKING among failed / all failed (NA stays in the denominator)."""
    coverage_low: float | None
    coverage_high: float | None
    p_value: float | None
    q_value: float | None
    """Null too where fewer than eight trajectories of a side are relevant: then no test is made."""
    n_failed: int
    n_passed: int
    n_failed_relevant: int
    n_passed_relevant: int
    n_failed_lacking: int
    n_passed_lacking: int
    n_tasks: int
    """Tasks behind the intervals: the bootstrap resamples these."""
    alpha: float | None
    """Krippendorff's alpha over all labellers and passes; null with one of them."""
    alpha_low: float | None = None
    alpha_high: float | None = None
    matched_gap: float | None = None
    """The gap between failed and passed trials of the same task, which difficulty cannot explain."""
    matched_gap_low: float | None = None
    matched_gap_high: float | None = None
    n_pairs: int = 0
    """Disjoint pairs of a failed and a passed relevant trial of one task behind `matched_gap`."""
    n_pair_tasks: int = 0
    varying_gap: float | None = None
    """The matched gap in tasks whose trials differ in the label as well as in the outcome: whether the lack
    matters where nothing else differs. Positive when it is the lacking trials that fail."""
    varying_gap_low: float | None = None
    varying_gap_high: float | None = None
    n_varying_tasks: int = 0
    n_considered: int | None = None
    """Tests that q values are corrected for: findings of this target that were looked at, kept or not."""


class SelectedCapability(Record):
    """Row of the table `selected_capabilities`: the decision on every candidate, with its reason."""

    table: ClassVar[str] = "selected_capabilities"
    key: ClassVar[tuple[str, ...]] = ("target", "rank", "capability_id")

    capability_id: str
    target: str
    name: str
    kept: bool
    rank: int
    """Order in which greedy coverage took it, from 1; rejected ones come after, 0 is not used."""
    reason: str
    """Why it was kept or rejected, in words with the figures."""
    marginal_coverage: float | None
    """Share of failed trajectories that this one covers and no earlier one did."""
    expected_cost: float | None = None
    """What teaching it is expected to cost, in units of one training; null where it was not weighed."""


class CapabilitySpec(Record):
    """Row of the table `capability_specs`: all that per-capability work may depend on.

    This is the firewall: an edit of thresholds that leaves a capability's spec equal re-trains nothing.
    """

    table: ClassVar[str] = "capability_specs"
    key: ClassVar[tuple[str, ...]] = ("capability_id",)

    capability_id: str
    target: str
    name: str
    description: str
    detector: str | None = None
    detector_args: Json = {}
