"""Would another study of the same size have found and kept the same?"""

from __future__ import annotations

from typing import ClassVar

from trace_assets.records.base import Record


class Stability(Record):
    """Row of the table `stability`: what becomes of a candidate on resampled tasks.

    Beside each row stands the null: the same procedure on outcomes shuffled within the target. All shares
    have Wilson intervals at the confidence of the contrast.
    """

    table: ClassVar[str] = "stability"
    key: ClassVar[tuple[str, ...]] = ("target", "capability_id")

    capability_id: str
    target: str
    name: str
    rediscovers: bool
    """Whether discovery was repeated too (detectors); otherwise only contrast and selection were."""
    n_resamples: int
    discovered: float
    """Share of resamples in which it, or a twin that labels alike, was among the candidates."""
    discovered_low: float
    discovered_high: float
    kept: float
    """Share of resamples in which it, or such a twin, was selected."""
    kept_low: float
    kept_high: float
    gap_mean: float | None
    """Over the resamples in which its gap was defined."""
    gap_sd: float | None
    n_shuffles: int
    null_kept: float
    """Share of shuffles in which it, or such a twin, was selected: by chance alone."""
    null_kept_high: float
    """Upper bound of that share."""
    null_any: float
    """Share of shuffles in which anything of this target was selected."""
    null_any_low: float
    null_any_high: float
    null_mean: float
    """Capabilities selected in a shuffle, on average, over the target."""
