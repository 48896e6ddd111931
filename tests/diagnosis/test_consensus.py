from __future__ import annotations

import numpy as np
import pytest

from trace_assets.diagnosis.contrast import considered_tests, estimation_share, in_first_half
from trace_assets.diagnosis.label_matrix import (
    LACKING,
    MISSING,
    PRESENT,
    LabelMatrix,
    agreement_of,
    consensus_of,
    reconcile,
)
from trace_assets.records import Capability, Label, LabelValue, Triage
from trace_assets.settings import ContrastSection

SECTION = ContrastSection(resamples=200, permutations=100)


def study(coders: dict[tuple[str, int], str]) -> LabelMatrix:
    """Labels of one capability as a word a coder: L, P or N for each of as many trajectories."""
    names: dict[str, LabelValue] = {"L": "LACKING", "P": "PRESENT", "N": "NA"}
    length = len(next(iter(coders.values())))
    triage = [
        Triage(
            trajectory_id=f"r{place:03}",
            target="t",
            task_id=f"t/{place:03}",
            outcome="passed" if place % 2 else "failed",
            fault=None if place % 2 else "agent",
            rule="test",
        )
        for place in range(length)
    ]
    labels = [
        Label(
            trajectory_id=f"r{place:03}",
            capability_id="c",
            labeller=labeller,
            labelling_pass=turn,
            label=names[letter],
        )
        for (labeller, turn), word in coders.items()
        for place, letter in enumerate(word)
        if letter in names
    ]
    return LabelMatrix.build(labels, triage, "t")


def test_one_labeller_has_no_agreement_and_no_consensus() -> None:
    matrix = study({("detectors", 0): "LPN" * 5})
    assert agreement_of(matrix, SECTION, "t") == [] == consensus_of(matrix, "t")


def test_agreement_between_passes_and_between_model_and_detectors() -> None:
    first = "LLPPNN" * 6
    second = "LLPPNL" * 6  # the model's second pass takes every sixth for a lack
    matrix = study({("detectors", 0): first, ("model:m", 1): first, ("model:m", 2): second})
    rows = {(row.between, row.coders): row for row in agreement_of(matrix, SECTION, "t")}
    assert set(rows) == {
        ("all", "detectors, model:m"),
        ("passes", "model:m"),
        ("labellers", "detectors, model:m"),
    }
    passes = rows["passes", "model:m"]
    assert passes.alpha is not None and passes.alpha_low is not None and passes.alpha_high is not None
    assert 0.4 < passes.alpha_low < passes.alpha < passes.alpha_high < 1
    assert (passes.n_items, passes.n_coders) == (36, 2)
    # Where the model's passes contradict each other it has said nothing, so it never contradicts detectors.
    between = rows["labellers", "detectors, model:m"]
    assert (between.alpha, between.n_items) == (1.0, 30)


def test_the_posterior_is_kept_and_contradictions_are_left_out() -> None:
    matrix = study({("x", 0): "LLLLPPPPLL" * 3, ("x", 1): "LLLLPPPPPL" * 3})
    rows = {row.trajectory_id: row for row in consensus_of(matrix, "t")}
    assert len(rows) == 30
    assert rows["r000"].label == "LACKING" and rows["r000"].unanimous and rows["r000"].p_lacking > 0.9
    assert rows["r008"].label is None and not rows["r008"].unanimous
    assert all(row.p_na + row.p_present + row.p_lacking == pytest.approx(1) for row in rows.values())
    assert matrix.codes[0, 8] == MISSING


def test_passes_of_one_model_that_contradict_each_other_never_make_a_label() -> None:
    # The second pass says LACKING far too often: nobody may learn from that which of the two to believe.
    first, second = "PPPPPPPPLLLLNNNN" * 4, "LLLLPPPPLLLLNNNN" * 4
    alone = study({("model:m", 1): first, ("model:m", 2): second})
    assert (alone.codes[0, :4] == MISSING).all()
    beside = study({("model:m", 1): first, ("model:m", 2): second, ("detectors", 0): first})
    assert (beside.codes[0, :4] == PRESENT).all(), "a tie says nothing, so the other labeller's word stands"
    three = study({("model:m", 1): first, ("model:m", 2): second, ("model:m", 3): first})
    assert (three.codes[0, :4] == PRESENT).all()
    rows = {row.trajectory_id: row for row in consensus_of(three, "t")}
    assert rows["r000"].p_present == pytest.approx(2 / 3) and rows["r000"].label == "PRESENT"


def test_an_abstention_is_no_label() -> None:
    matrix = study({("model:m", 1): "LLPP" * 4, ("model:m", 2): "LLPP" * 4})
    row = Label(
        trajectory_id="r000", capability_id="c", labeller="model:m", labelling_pass=1, label="CANNOT_TELL"
    )
    triage = [
        Triage(trajectory_id="r000", target="t", task_id="t/0", outcome="failed", fault="agent", rule="r")
    ]
    assert matrix.codes[0, 0] == LACKING
    assert LabelMatrix.build([row], triage, "t").codes[0, 0] == MISSING


def test_an_item_that_one_coder_saw_has_that_coders_label() -> None:
    votes = np.full((1, 12, 2), PRESENT, dtype=np.int8)
    votes[0, :6] = LACKING
    votes[0, 11] = (LACKING, MISSING)
    codes, posterior = reconcile(votes)
    assert codes[0].tolist() == [LACKING] * 6 + [PRESENT] * 5 + [LACKING]
    assert posterior is not None and posterior.shape == (1, 12, 3)


def candidate(**changes: object) -> Capability:
    fields = {"capability_id": "c", "target": "t", "name": "c", "description": "", "analyst": "x"}
    return Capability.model_validate({**fields, **changes})


def test_the_half_that_proposed_is_not_tested_on() -> None:
    triage = [
        Triage(trajectory_id=f"r{i}", target="t", task_id=f"t/{i}", outcome="passed", fault=None, rule="r")
        for i in range(200)
    ]
    kept = estimation_share(triage, [candidate(discovered_on="half")])
    assert 70 < len(kept) < 130 and not any(in_first_half(row.task_id) for row in kept)
    assert estimation_share(triage, [candidate()]) == triage
    assert considered_tests([candidate(n_considered=12), candidate()]) == 13
