"""Contrasts without a single lacking success: whether a model's labels may have followed the outcome."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from trace_assets.records import Contrast, Label

DETECTORS = "detectors"
"""Labeller whose code is handed trajectories without their outcome: it cannot follow what it does not see."""
MOST_NAMED = 5
EMPTY_RELEVANT = 10
"""Relevant successes from which an ER+ of exactly 0 is suspicious."""


def empty_contrast(contrasts: Sequence[Contrast]) -> list[Contrast]:
    """Return the capabilities whose labels may follow the outcome, so that there is no contrast at all.

    Either no success lacks it although ten or more needed it, or, on ten or more trajectories that needed it,
    every failure lacks it and every success has it. Every lack may be fatal; but the published label runs
    of the reference are like this (42 LACKING and 0 PRESENT on failures, 0 and 7 on successes), whose
    labeller saw the reward: a person should look.
    """
    return [
        row
        for row in contrasts
        if row.er_passed == 0
        and (
            row.n_passed_relevant >= EMPTY_RELEVANT
            or (row.er_failed == 1 and row.n_failed_relevant + row.n_passed_relevant >= EMPTY_RELEVANT)
        )
    ]


def unread_labels(contrasts: Sequence[Contrast], labels: Iterable[Label]) -> frozenset[str]:
    """Return what has an empty contrast by the labels of a model that finds no lack in any success.

    An ER+ of exactly 0 with ten or more relevant successes has two readings: the lack is always fatal, or
    the labeller inferred the outcome and called every success PRESENT. Detectors are deterministic predicates
    over trajectories from which the outcome was removed, so for them only the first reading is left. A model
    can guess the outcome from the conversation and follow it. Then it calls every success in order, whatever
    it is asked about, as the published labels of the reference do. So its whole label matrix is looked at:
    where it never gives LACKING to a success, though successes needed two of its candidates or more, what
    it would keep waits until a person has read some labels. One candidate alone cannot tell.

    Honest labels are like this too where lacks are fatal and runs are few, so all else goes on: two studies
    of 30 runs each, labelled blind, were stopped by an earlier form of this.
    """
    by_model, asked, lacks = _of_models(contrasts, labels)
    empty = {row.capability_id for row in empty_contrast(contrasts)}
    return frozenset(empty & by_model) if not lacks and asked > 1 else frozenset()


def unread_words(row: Contrast) -> str:
    """Say why a candidate of `unread_labels` is not kept."""
    return (
        f"none of the {row.n_passed_relevant} successes that needed it lacks it, and the model that labelled "
        "finds no lack in any success: it may have followed the outcome; read some of its labels "
        "(`trace sql lacking`), then set contrast.accept_empty = true or label with another model"
    )


class OutcomeLeak(NamedTuple):
    """Whether no contrast is empty, and the reason in words."""

    passed: bool
    detail: str


def outcome_leak(
    contrasts: Sequence[Contrast], labels: Sequence[Label], accept_empty: bool = False
) -> OutcomeLeak:
    """Say of candidates whose contrast is empty who labelled them, and what comes of it.

    What says no more than how runs ended is held back by itself, see `restates_outcome`.

    Args:
        contrasts: The candidates.
        labels: Their labels; only who gave them is looked at.
        accept_empty: A person has read the labels and takes the lack to be always fatal; the sentence then
            says that it was overridden.
    """
    empty = {row.capability_id for row in empty_contrast(contrasts)}
    if not empty:
        return OutcomeLeak(True, f"none of {len(contrasts)} candidates is lacking in failures alone.")
    by_model, asked, lacks = _of_models(contrasts, labels)
    guessed = empty & by_model
    found = sorted(guessed or empty)
    named = ", ".join(found[:MOST_NAMED]) + (", ..." if len(found) > MOST_NAMED else "")
    what = (
        f"{len(found)} of {len(contrasts)} candidates are never lacking in a success although "
        f"{EMPTY_RELEVANT} or more trajectories needed them: {named}."
    )
    if guessed and accept_empty:
        said = "A model labelled them and may have followed the outcome; overridden by contrast.accept_empty."
    elif guessed and not lacks and asked > 1:
        said = (
            "A model labelled them, and it gives LACKING to no success at all: it may have followed the "
            "outcome, so none of them is kept. Read some of the labels with `trace sql lacking` and the "
            "figure of `label_leak`; set contrast.accept_empty = true when these lacks are always fatal, or "
            "label with another model."
        )
    elif guessed:
        looked = (
            "it gives LACKING to successes elsewhere, so it does not follow the outcome"
            if lacks
            else "of one candidate alone it cannot be told whether it followed the outcome"
        )
        said = (
            f"A model labelled them; {looked}. Read some of the labels with `trace sql lacking` before you "
            "teach one."
        )
    else:
        said = (
            "Detectors labelled them, blind to the outcome, so it seems that the lack is always fatal; read "
            "some of the evidence with `trace sql lacking`."
        )
    return OutcomeLeak(False, f"{what} {said}")


def _of_models(contrasts: Sequence[Contrast], labels: Iterable[Label]) -> tuple[set[str], int, int]:
    """Return what a model labelled, how many of these successes needed, and how often it finds one lacking.

    What detectors labelled as well says nothing of the model.
    """
    by_model, by_detectors = set[str](), set[str]()
    for label in labels:
        (by_detectors if label.labeller == DETECTORS else by_model).add(label.capability_id)
    asked = [row for row in contrasts if row.capability_id in by_model and row.n_passed_relevant]
    lacks = sum(row.n_passed_lacking for row in asked if row.capability_id not in by_detectors)
    return by_model, len(asked), lacks
