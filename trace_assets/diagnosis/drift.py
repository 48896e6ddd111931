"""Drift: does a capability's contrast in a new batch leave the band that earlier batches gave it?"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import sqrt
from typing import Literal

from trace_assets.diagnosis.contrast import contrast
from trace_assets.records import Contrast, Drift, Label, Triage
from trace_assets.settings import ContrastSection
from trace_assets.statistics.bootstrap import Estimate

Measure = Literal["gap", "coverage"]
MEASURES: tuple[Measure, ...] = ("gap", "coverage")
FEWEST_PERMUTATIONS = 100
"""The p-values of the two contrasts are not used, and permutations are most of their cost."""


def simultaneous_confidence(confidence: float, comparisons: int) -> float:
    """Return the confidence of each interval with which all of them hold together (Bonferroni 1936).

    >>> round(simultaneous_confidence(0.95, 10), 4)
    0.995
    """
    return 1 - (1 - confidence) / max(1, comparisons)


def change(before: Estimate, now: Estimate) -> Estimate:
    """Return `now - before` of two independent estimates with its interval.

    MOVER (Zou and Donner 2008, Statistics in Medicine 27:1693, equation 2 without correlation) needs only the
    two intervals, which are not symmetric near 0 and 1. Two intervals that just touch are no test: where the
    standard errors are equal they leave each other only at 2.8 of them, while the difference is clear at 2.0.

    >>> moved = change(Estimate(0.9, 0.8, 0.96), Estimate(0.3, 0.2, 0.42))
    >>> [round(bound, 2) for bound in (moved.value, moved.low, moved.high) if bound is not None]
    [-0.6, -0.72, -0.44]
    >>> change(Estimate(0.9, None, None), Estimate(0.3, 0.2, 0.42)).low is None
    True
    """
    if before.value is None or now.value is None:
        return Estimate(None, None, None)
    value = now.value - before.value
    if before.low is None or before.high is None or now.low is None or now.high is None:
        return Estimate(value, None, None)
    below = sqrt((now.value - now.low) ** 2 + (before.high - before.value) ** 2)
    above = sqrt((now.high - now.value) ** 2 + (before.value - before.low) ** 2)
    return Estimate(value, value - below, value + above)


def drift(
    labels: Sequence[Label],
    triage: Sequence[Triage],
    section: ContrastSection,
    target: str,
    batch: str,
    new: Collection[str],
) -> list[Drift]:
    """Compare gap and coverage of every capability between new trajectories and all others of a target.

    Both sides are estimated anew with the same labels' definitions, rather than against intervals that were
    stored when the dictionary was another. A task that occurs on both sides makes the intervals too wide, not
    too narrow. Two limits: a figure that was picked for being large among earlier batches falls back a little
    in any new one (with `discovery.split = "half"` it does not), and each new batch is a further look.

    Args:
        labels: Of the target's capabilities, all batches.
        triage: Outcomes of the target's trajectories, all batches.
        section: Resamples, seed, and the confidence with which all intervals hold together.
        target: Whose trajectories to use.
        batch: The new batch, named in the rows.
        new: Ids of its trajectories.

    Returns:
        One row a capability and measure that both sides have labels for, sorted; `drifted` where the interval
        of the change leaves out 0. Figures and bounds that cannot be had are None and never drifted.
    """
    sides = [
        {row.capability_id for row in labels if (row.trajectory_id in new) is side} for side in (False, True)
    ]
    both = sides[0] & sides[1]
    if not both:
        return []
    level = simultaneous_confidence(section.confidence, len(both) * len(MEASURES))
    narrow = section.model_copy(update={"confidence": level, "permutations": FEWEST_PERMUTATIONS})
    before, now = (
        {
            row.capability_id: row
            for row in contrast(
                [row for row in labels if row.capability_id in both and (row.trajectory_id in new) is side],
                [row for row in triage if (row.trajectory_id in new) is side],
                narrow,
                target,
            )
        }
        for side in (False, True)
    )
    return [
        _row(before[capability], now[capability], measure, batch, level)
        for capability in sorted(before.keys() & now.keys())
        for measure in MEASURES
    ]


def _row(before: Contrast, now: Contrast, measure: Measure, batch: str, level: float) -> Drift:
    first, second = _estimate(before, measure), _estimate(now, measure)
    moved = change(first, second)
    return Drift(
        task_batch=batch,
        target=now.target,
        capability_id=now.capability_id,
        measure=measure,
        before=first.value,
        before_low=first.low,
        before_high=first.high,
        now=second.value,
        now_low=second.low,
        now_high=second.high,
        change=moved.value,
        change_low=moved.low,
        change_high=moved.high,
        n_before=_size(before, measure),
        n_now=_size(now, measure),
        confidence=level,
        drifted=moved.low is not None and moved.high is not None and not moved.low <= 0 <= moved.high,
    )


def _estimate(row: Contrast, measure: Measure) -> Estimate:
    if measure == "gap":
        return Estimate(row.gap, row.gap_low, row.gap_high)
    return Estimate(row.coverage, row.coverage_low, row.coverage_high)


def _size(row: Contrast, measure: Measure) -> int:
    return row.n_failed_relevant + row.n_passed_relevant if measure == "gap" else row.n_failed
