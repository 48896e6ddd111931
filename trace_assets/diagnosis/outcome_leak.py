"""Whether labels may have followed the outcome: a contrast without a single lacking success says so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from trace_assets.diagnosis.selection import EMPTY_RELEVANT, empty_contrast
from trace_assets.records import Contrast, Label

DETECTORS = "detectors"
"""Labeller whose code is handed trajectories without their outcome: it cannot follow what it does not see."""
MOST_NAMED = 5


class OutcomeLeak(NamedTuple):
    """Whether no contrast is empty, how grave it is where one is, and the reason in words."""

    passed: bool
    severity: Literal["error", "warning"]
    detail: str


def outcome_leak(
    contrasts: Sequence[Contrast], labels: Iterable[Label], accept_empty: bool = False
) -> OutcomeLeak:
    """Judge candidates whose contrast is empty by who labelled them.

    An ER+ of exactly 0 with ten or more relevant successes has two readings: the lack is always fatal, or
    the labeller inferred the outcome and called every success PRESENT. Detectors are deterministic predicates
    over trajectories from which the outcome was removed, so for them only the first reading is left, and it
    is a warning for people. A model can guess the outcome from the conversation and follow it, so there it is
    an error: nothing is selected on such labels.

    Args:
        contrasts: The candidates.
        labels: Their labels; only who gave them is looked at.
        accept_empty: A person has read the labels and takes the lack to be always fatal: a model's labels
            warn, too, and the sentence says that it was overridden.
    """
    empty = {row.capability_id for row in empty_contrast(contrasts)}
    if not empty:
        return OutcomeLeak(
            True, "error", f"none of {len(contrasts)} candidates is lacking in failures alone."
        )
    guessed = {
        label.capability_id
        for label in labels
        if label.capability_id in empty and label.labeller != DETECTORS
    }
    found = sorted(guessed or empty)
    named = ", ".join(found[:MOST_NAMED]) + (", ..." if len(found) > MOST_NAMED else "")
    what = (
        f"{len(found)} of {len(contrasts)} candidates are never lacking in a success although "
        f"{EMPTY_RELEVANT} or more trajectories needed them: {named}."
    )
    if guessed and accept_empty:
        return OutcomeLeak(
            False,
            "warning",
            f"{what} A model labelled them and may have followed the outcome; overridden by "
            "contrast.accept_empty.",
        )
    if guessed:
        return OutcomeLeak(
            False,
            "error",
            f"{what} A model labelled them and may have followed the outcome, so nothing is selected: read "
            "some of the labels with `trace sql lacking` and the figure of `label_leak`; then label with "
            "another model or by detectors; set contrast.accept_empty = true when the lack is always fatal.",
        )
    return OutcomeLeak(
        False,
        "warning",
        f"{what} Detectors labelled them, blind to the outcome, so it seems that the lack is always fatal; "
        "read some of the evidence with `trace sql lacking`.",
    )
