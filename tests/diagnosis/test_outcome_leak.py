"""An empty contrast stops the selection where its labels could have followed the outcome, and only there."""

from __future__ import annotations

import pytest

from trace_assets.diagnosis.contrast import contrast
from trace_assets.diagnosis.leak import outcome_leak
from trace_assets.records import Contrast, Label, Triage
from trace_assets.settings import ContrastSection


def study(labeller: str, lacking_successes: int) -> tuple[list[Contrast], list[Label]]:
    """Twenty failures that all lack it, and twenty successes of which some do."""
    triage = [
        Triage(
            trajectory_id=f"r{i:02}",
            target="t",
            task_id=f"t/{i:02}",
            outcome="failed" if i < 20 else "passed",
            fault="agent" if i < 20 else None,
            rule="test",
        )
        for i in range(40)
    ]
    labels = [
        Label(
            trajectory_id=row.trajectory_id,
            capability_id="look-first",
            labeller=labeller,
            label="LACKING" if i < 20 + lacking_successes else "PRESENT",
        )
        for i, row in enumerate(triage)
    ]
    return contrast(labels, triage, ContrastSection(resamples=200, permutations=500), "t"), labels


@pytest.mark.parametrize(
    ("labeller", "severity", "words"),
    [
        ("detectors", "warning", "blind to the outcome"),
        ("model:some-model", "error", "nothing is selected"),
    ],
)
def test_who_labelled_decides_how_grave_an_empty_contrast_is(
    labeller: str, severity: str, words: str
) -> None:
    leak = outcome_leak(*study(labeller, 0))
    assert (leak.passed, leak.severity) == (False, severity)
    assert "look-first" in leak.detail and words in leak.detail


def test_a_person_who_read_the_labels_may_override_and_the_check_says_so() -> None:
    leak = outcome_leak(*study("model:some-model", 0), accept_empty=True)
    assert (leak.passed, leak.severity) == (False, "warning")
    assert "overridden by contrast.accept_empty" in leak.detail
    assert "overridden" not in outcome_leak(*study("detectors", 0), accept_empty=True).detail


def test_one_model_label_among_the_detectors_is_enough() -> None:
    contrasts, labels = study("detectors", 0)
    mixed = [labels[0].model_copy(update={"labeller": "model:m", "labelling_pass": 1}), *labels]
    assert outcome_leak(contrasts, mixed).severity == "error"
    other = [labels[0].model_copy(update={"labeller": "model:m", "capability_id": "elsewhere"}), *labels]
    assert outcome_leak(contrasts, other).severity == "warning"


@pytest.mark.parametrize("labeller", ["detectors", "model:some-model"])
def test_a_success_that_lacks_it_clears_the_labels(labeller: str) -> None:
    leak = outcome_leak(*study(labeller, 2))
    assert leak.passed and "none of 1 candidates" in leak.detail


def test_no_candidates_is_no_leak() -> None:
    assert outcome_leak([], []).passed
