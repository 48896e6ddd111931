"""What has an empty contrast is not kept where its labels may have followed the outcome, and only there."""

from __future__ import annotations

import pytest

from trace_assets.diagnosis.contrast import contrast
from trace_assets.diagnosis.leak import outcome_leak, unread_labels
from trace_assets.diagnosis.selection import select
from trace_assets.records import Contrast, Label, Triage
from trace_assets.settings import ContrastSection, Selection


def outcomes() -> list[Triage]:
    return [
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


def study(labeller: str, lacking_successes: int) -> tuple[list[Contrast], list[Label]]:
    """Twenty failures that all lack it, and twenty successes of which some do."""
    triage = outcomes()
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


def two(labeller: str, lacking_successes: int = 0) -> tuple[list[Contrast], list[Label]]:
    """The same twice, of which the second is lacking in some successes."""
    (first, labels), (second, more) = study(labeller, 0), study(labeller, lacking_successes)
    own = {"capability_id": "elsewhere"}
    return (
        [*first, *(row.model_copy(update=own) for row in second)],
        [*labels, *(label.model_copy(update=own) for label in more)],
    )


def test_what_a_model_says_that_calls_every_success_in_order_is_not_kept_unread() -> None:
    contrasts, labels = two("model:some-model")
    leak = outcome_leak(contrasts, labels)
    assert not leak.passed and "look-first" in leak.detail and "none of them is kept" in leak.detail
    assert "look-first" in unread_labels(contrasts, labels)


def test_what_waits_for_a_reader_is_promising_and_stops_nothing_else() -> None:
    contrasts, labels = study("model:some-model", 0)
    (free,) = select(contrasts, [], labels, outcomes(), Selection())
    (held,) = select(contrasts, [], labels, outcomes(), Selection(), unread={"look-first"})
    assert (free.verdict, free.kept) == ("kept", True)
    assert (held.verdict, held.kept) == ("promising", False)
    assert "contrast.accept_empty = true" in held.reason
    contrasts, labels = two("model:some-model", 3)
    both = select(contrasts, [], labels, outcomes(), Selection(), unread={"look-first"})
    assert {row.capability_id: row.kept for row in both} == {"look-first": False, "elsewhere": True}


def test_detectors_cannot_follow_what_they_do_not_see() -> None:
    leak = outcome_leak(*two("detectors"))
    assert not leak.passed and "blind to the outcome" in leak.detail
    assert not unread_labels(*two("detectors"))


def test_a_model_that_finds_lacks_in_successes_does_not_follow_the_outcome() -> None:
    contrasts, labels = two("model:some-model", 3)
    leak = outcome_leak(contrasts, labels)
    assert not leak.passed and not unread_labels(contrasts, labels)
    assert "look-first" in leak.detail and "elsewhere" not in leak.detail.split(":")[1].split(".")[0]
    assert "LACKING to successes elsewhere" in leak.detail
    # What detectors found in successes says nothing of the model.
    shared = [
        label.model_copy(update={"labeller": "detectors"}) for label in labels if label.label == "LACKING"
    ]
    assert unread_labels(contrasts, [*labels, *shared])


def test_one_candidate_alone_cannot_tell() -> None:
    leak = outcome_leak(*study("model:some-model", 0))
    assert not leak.passed and "one candidate alone" in leak.detail
    assert not unread_labels(*study("model:some-model", 0))
    # What detectors find in successes says nothing of the model.
    contrasts, labels = two("model:some-model", 3)
    mixed = [
        label.model_copy(update={"labeller": "detectors"}) if label.capability_id == "elsewhere" else label
        for label in labels
    ]
    assert "one candidate alone" in outcome_leak(contrasts, mixed).detail


def test_a_person_who_read_the_labels_may_override_and_the_check_says_so() -> None:
    leak = outcome_leak(*two("model:some-model"), accept_empty=True)
    assert not leak.passed
    assert "overridden by contrast.accept_empty" in leak.detail
    assert "overridden" not in outcome_leak(*two("detectors"), accept_empty=True).detail


def test_one_model_label_among_the_detectors_is_enough() -> None:
    contrasts, labels = two("detectors")
    mixed = [
        label.model_copy(update={"labeller": "model:m", "labelling_pass": 1})
        for label in labels
        if label.trajectory_id == "r00"
    ]
    assert unread_labels(contrasts, [*mixed, *labels])
    other = [label.model_copy(update={"capability_id": "unknown"}) for label in mixed]
    assert not unread_labels(contrasts, [*other, *labels])


@pytest.mark.parametrize("labeller", ["detectors", "model:some-model"])
def test_a_success_that_lacks_it_clears_the_labels(labeller: str) -> None:
    leak = outcome_leak(*study(labeller, 2))
    assert leak.passed and "none of 1 candidates" in leak.detail


def test_no_candidates_is_no_leak() -> None:
    assert outcome_leak([], []).passed
