from __future__ import annotations

import numpy as np
import pytest

from trace_assets.diagnosis.label_matrix import LACKING, MISSING, NA, NO_EVIDENCE, PRESENT, LabelMatrix
from trace_assets.records import Label, LabelValue, Triage


def _triage(name: str, outcome: str, fault: str | None, task: str) -> Triage:
    return Triage.model_validate(
        {
            "trajectory_id": name,
            "target": "t",
            "task_id": task,
            "outcome": outcome,
            "fault": fault,
            "rule": "r",
        }
    )


def _label(
    name: str, capability: str, value: LabelValue, turn: int = 0, evidence: tuple[int, ...] = ()
) -> Label:
    return Label(
        trajectory_id=name,
        capability_id=capability,
        labeller="x",
        label=value,
        labelling_pass=turn,
        evidence=evidence,
    )


TRIAGE = [
    _triage("z", "failed", "agent", "t/1"),
    _triage("y", "passed", None, "t/1"),
    _triage("x", "failed", "agent", "t/0"),
    _triage("w", "failed", "infrastructure", "t/0"),
]


def test_columns_are_sorted_by_task_and_leave_out_others_faults() -> None:
    labels = [
        _label("z", "b", "LACKING", evidence=(7, 4)),
        _label("y", "b", "NA"),
        _label("w", "b", "LACKING"),
        _label("x", "a", "PRESENT", evidence=(2,)),
        _label("elsewhere", "c", "LACKING"),
    ]
    matrix = LabelMatrix.build(labels, TRIAGE, "t")
    assert (matrix.capabilities, matrix.trajectories) == (("a", "b"), ("x", "y", "z"))
    assert matrix.tasks.tolist() == [0, 1, 1] and matrix.failed.tolist() == [True, False, True]
    assert matrix.codes.tolist() == [[PRESENT, MISSING, MISSING], [MISSING, NA, LACKING]]
    assert matrix.evidence.tolist() == [[NO_EVIDENCE] * 3, [NO_EVIDENCE, NO_EVIDENCE, 4]]
    assert matrix.votes is None and matrix.posterior is None and matrix.coders == (("x", 0),)


def test_majority_of_passes_and_their_agreement() -> None:
    labels = [_label("x", "a", value, turn) for turn, value in enumerate(("LACKING", "LACKING", "PRESENT"))]
    labels += [_label("y", "a", value, turn) for turn, value in enumerate(("PRESENT", "LACKING"))]
    labels += [_label("z", "a", "PRESENT", turn) for turn in range(3)]
    matrix = LabelMatrix.build(labels, TRIAGE, "t")
    assert matrix.codes.tolist() == [[LACKING, MISSING, PRESENT]]
    assert matrix.coders == (("x", 0), ("x", 1), ("x", 2))
    assert matrix.votes is not None and matrix.votes[0].tolist() == [[2, 2, 1], [1, 2, -1], [1, 1, 1]]
    assert matrix.posterior is not None and matrix.posterior.sum(axis=-1) == pytest.approx(1)


def test_two_labellers_with_one_pass_number_are_two_coders() -> None:
    labels = [_label("x", "a", "LACKING"), _label("x", "a", "PRESENT").model_copy(update={"labeller": "y"})]
    matrix = LabelMatrix.build(labels, TRIAGE, "t")
    assert matrix.coders == (("x", 0), ("y", 0)) and matrix.codes[0, 0] == MISSING


def test_a_resample_takes_tasks_whole() -> None:
    labels = [_label(name, "a", "LACKING" if name == "z" else "PRESENT") for name in "xyz"]
    matrix = LabelMatrix.build(labels, TRIAGE, "t").draw(np.array([1, 0, 1]))
    assert matrix.tasks.tolist() == [0, 0, 1, 2, 2]
    assert matrix.trajectories == ("y", "z", "x", "y", "z")
    assert matrix.codes.tolist() == [[PRESENT, LACKING, PRESENT, PRESENT, LACKING]]
    assert matrix.failed.tolist() == [False, True, True, False, True]


def test_some_of_the_capabilities() -> None:
    labels = [_label("x", name, value) for name, value in (("a", "NA"), ("b", "LACKING"), ("c", "PRESENT"))]
    matrix = LabelMatrix.build(labels, TRIAGE, "t").take([2, 0])
    assert matrix.capabilities == ("c", "a") and matrix.codes[:, 0].tolist() == [PRESENT, NA]


def test_nothing_at_all() -> None:
    matrix = LabelMatrix.build([], TRIAGE, "nowhere")
    assert matrix.codes.shape == (0, 0) and matrix.failed.dtype == np.bool_
