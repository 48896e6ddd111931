"""Candidates that say one thing twice: which are recognised, which one stands, and what is left alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_assets.diagnosis.contrast import contrast_matrix
from trace_assets.diagnosis.duplicates import duplicates
from trace_assets.diagnosis.failure_causes import Diagnosed, explain
from trace_assets.diagnosis.label_matrix import LACKING, NA, NO_EVIDENCE, PRESENT, LabelMatrix
from trace_assets.diagnosis.selection import select
from trace_assets.records import (
    Capability,
    Label,
    LackCause,
    Message,
    SelectedCapability,
    Trajectory,
    Triage,
)
from trace_assets.settings import ContrastSection, Selection

WORDS = {
    "a": ("Check the fare class before a change", "The policy forbids changing basic fares; read the class."),
    "b": ("Read the fare class on the booking first", "Changing a basic fare is forbidden by the policy."),
    "c": ("Ask which card to charge", "Payment is taken from a card that was chosen by its owner."),
    "d": ("Open every listed order", "What is asked for may lie in any of the orders on the profile."),
}


def capability(name: str, words: str = "", **others: Any) -> Capability:
    title, text = WORDS[words or name[0]]
    told = {"capability_id": name, "target": "t", "name": title, "description": text, "analyst": "model:m"}
    return Capability.model_validate(told | others)


def matrix(codes: dict[str, Any], places: dict[str, Any] | None = None) -> LabelMatrix:
    """Return 40 runs, half of them failed, with labels and the first message that shows each lack."""
    names = tuple(sorted(codes))
    rows = np.array([codes[name] for name in names], dtype=np.int8)
    shown = np.where(rows == LACKING, 5, NO_EVIDENCE).astype(np.int32)
    for name, place in (places or {}).items():
        own = names.index(name)
        shown[own] = np.where(rows[own] == LACKING, place, NO_EVIDENCE)
    n = rows.shape[1]
    return LabelMatrix(
        names, tuple(f"r{i:02}" for i in range(n)), np.arange(n), np.arange(n) < n // 2, rows, shown
    )


def lacking(*runs: int, relevant: int = 40, n: int = 40) -> np.ndarray[Any, Any]:
    found = np.where(np.arange(n) < relevant, PRESENT, NA)
    found[list(runs)] = LACKING
    return found


EIGHT = lacking(*range(8))


def test_two_names_of_one_lack_are_one_and_the_wider_one_stands() -> None:
    found = duplicates(matrix({"a": lacking(*range(9)), "b": EIGHT}), [capability("a"), capability("b")])
    assert found == {"b": "a"}
    found = duplicates(matrix({"a": EIGHT, "b": EIGHT}), [capability("a"), capability("b", detector="x")])
    assert found == {"a": "b"}, "a detector's labels are exact"


@pytest.mark.parametrize(
    ("other", "place", "words", "more"),
    [
        (lacking(*range(4, 12)), 5, "b", {}),
        (EIGHT, 9, "b", {}),
        (EIGHT, 5, "c", {}),
        (lacking(*range(8), relevant=12), 5, "b", {}),
        (EIGHT, 5, "b", {"parent": "a"}),
        (EIGHT, NO_EVIDENCE, "b", {}),
    ],
    ids=["other runs", "another place", "other words", "fewer runs need it", "a case of it", "no place"],
)
def test_what_differs_in_one_of_these_is_another_lack(other: Any, place: int, words: str, more: Any) -> None:
    told = [capability("a"), capability("x", words, **more)]
    assert duplicates(matrix({"a": EIGHT, "x": other}, {"x": place}), told) == {}
    assert duplicates(matrix({"a": EIGHT, "x": EIGHT}), [told[0], capability("x", "b")]) == {"x": "a"}


def test_a_broader_one_whose_labels_are_a_superset_stays_over_two_levels() -> None:
    told = [capability("a"), capability("b", parent="m"), capability("m", "c", parent="a")]
    assert duplicates(matrix({"a": lacking(*range(9)), "b": EIGHT, "m": EIGHT}), told) == {}


def test_two_runs_that_lack_both_may_be_chance() -> None:
    two = lacking(0, 1)
    many = {"a": two, "b": two} | {f"c{n}": lacking(n + 2, n + 3) for n in range(8)}
    told = [capability("a"), capability("b"), *(capability(f"c{n}") for n in range(8))]
    assert duplicates(matrix(many), told) == {}
    assert duplicates(matrix({"a": EIGHT, "b": EIGHT}), told[:2])


def test_what_detectors_name_is_merged_by_their_pool_alone() -> None:
    told = [capability("a", detector="x"), capability("b", detector="y")]
    assert duplicates(matrix({"a": EIGHT, "b": EIGHT}), told) == {}


Study = tuple[LabelMatrix, list[Capability]]


@st.composite
def studies(draw: st.DrawFn) -> Study:
    """Draw candidates of which some repeat others, with a few labels changed."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    codes: dict[str, Any] = {}
    told: list[Capability] = []
    for place, word in enumerate("acd"[: draw(st.integers(1, 3))]):
        base = np.where(rng.random(40) < 0.3, LACKING, PRESENT)
        for copy in range(draw(st.integers(1, 3))):
            own = base.copy()
            changed = rng.random(40) < draw(st.sampled_from([0.0, 0.03, 0.1]))
            own[changed] = rng.choice([NA, PRESENT, LACKING], size=int(changed.sum()))
            name = f"{word}{place}{copy}"
            codes[name] = own
            words = rng.choice(["a", "b"]) if word == "a" else word
            told.append(
                capability(name, str(words), detector="x" if draw(st.booleans()) and not copy else None)
            )
    return matrix(codes), told


def described(one: Capability, rows: LabelMatrix) -> tuple[Any, ...]:
    own = rows.codes[rows.capabilities.index(one.capability_id)]
    return one.name, one.description, str(one.detector), tuple(own.tolist())


@given(studies(), st.randoms())
def test_neither_order_nor_ids_change_what_stands(
    study: tuple[LabelMatrix, list[Capability]], rng: Any
) -> None:
    rows, told = study
    found = duplicates(rows, told)
    turned = list(told)
    rng.shuffle(turned)
    assert duplicates(rows, turned) == found
    ids = [f"z{n}" for n in range(len(told))]
    rng.shuffle(ids)
    renamed = dict(zip((one.capability_id for one in told), ids, strict=True))
    order = sorted(range(len(told)), key=lambda place: renamed[rows.capabilities[place]])
    again = matrix(
        {renamed[rows.capabilities[place]]: rows.codes[place] for place in order},
    )
    others = [one.model_copy(update={"capability_id": renamed[one.capability_id]}) for one in turned]

    def standing(of: LabelMatrix, given_: list[Capability], by: dict[str, str]) -> list[tuple[Any, ...]]:
        return sorted(described(one, of) for one in given_ if one.capability_id not in by)

    assert standing(again, others, duplicates(again, others)) == standing(rows, told, found)


@given(studies())
def test_what_stands_stands_for_itself_and_no_lack_is_lost(
    study: tuple[LabelMatrix, list[Capability]],
) -> None:
    rows, told = study
    found = duplicates(rows, told)
    assert not set(found) & set(found.values())
    lacks = {name: rows.codes[place] == LACKING for place, name in enumerate(rows.capabilities)}
    for name, other in found.items():
        both = (lacks[name] & lacks[other]).sum()
        assert both >= 0.75 * (lacks[name] | lacks[other]).sum()


def decided(codes: dict[str, Any], told: list[Capability], **others: Any) -> dict[str, SelectedCapability]:
    """Return what is decided of 100 failed and 100 passed runs."""
    rows = matrix(codes)
    labels = [
        Label(
            trajectory_id=run,
            capability_id=name,
            labeller="model:m",
            labelling_pass=1,
            label="LACKING" if codes[name][column] == LACKING else "PRESENT",
            evidence=(5,),
        )
        for name in codes
        for column, run in enumerate(rows.trajectories)
    ]
    triage = [
        Triage(
            trajectory_id=run,
            task_id=run,
            target="t",
            policy="p",
            outcome="failed" if fails else "passed",
            fault="agent" if fails else None,
            rule="",
        )
        for run, fails in zip(rows.trajectories, rows.failed, strict=True)
    ]
    contrasts = contrast_matrix(rows, ContrastSection(resamples=200), "t", twice=duplicates(rows, told))
    chosen = select(contrasts, told, labels, triage, Selection(**others))
    return {row.capability_id: row for row in chosen}


def wide(*runs: int) -> Any:
    return lacking(*runs, relevant=200, n=200)


def test_what_is_said_twice_is_selected_once_and_tells_who_stands_for_it() -> None:
    codes = {"a": wide(*range(40)), "b": wide(*range(38)), "c": wide(*range(60, 90))}
    told = [capability("a"), capability("b"), capability("c")]
    found = decided(codes, told)
    assert [name for name, row in found.items() if row.kept] == ["a", "c"]
    assert (found["b"].verdict, found["b"].same_as) == ("said twice", "a")
    assert found["b"].reason.startswith(
        f"said twice: '{WORDS['a'][0]}' stands for it: 38 of the 40 runs that"
    )
    assert found["a"].same_as == found["c"].same_as == ""
    alone = decided({"a": codes["a"], "c": codes["c"]}, [told[0], told[2]])
    for name, row in alone.items():
        assert (row.kept, row.reason, row.marginal_coverage) == (
            found[name].kept,
            found[name].reason,
            found[name].marginal_coverage,
        )


def test_a_person_may_have_it_kept_beside_what_stands_for_it() -> None:
    codes = {"a": wide(*range(40)), "b": wide(*range(38))}
    found = decided(codes, [capability("a"), capability("b")], overrides={"b": "we want both"})
    assert (found["b"].verdict, found["b"].kept, found["b"].same_as) == ("override", True, "")


def test_what_is_said_twice_is_tested_once() -> None:
    codes = {"a": wide(*range(40)), "b": wide(*range(38)), "c": wide(*range(5), *range(100, 104))}
    rows = matrix(codes)
    section = ContrastSection(resamples=200)
    once = contrast_matrix(rows, section, "t", twice={"b"}, considered=3)
    assert [row.n_considered for row in once] == [2, 2, 2] and once[1].q_value is None
    bare = contrast_matrix(rows.take([0, 2]), section, "t", considered=2)
    assert [row.q_value for row in bare] == [once[0].q_value, once[2].q_value]


def test_a_failure_that_lacks_both_is_put_down_to_what_stands_and_no_other_loses_its_cause() -> None:
    runs = [
        Trajectory(
            trajectory_id=name,
            task_id=name,
            target="t",
            task_batch="b",
            policy="p",
            success=False,
            stop="completed",
            messages=(Message(role="user", content="x"), Message(role="assistant", content="y")),
        )
        for name in ("both", "twice", "first")
    ]
    shown = {"both": "ab", "twice": "b", "first": "a"}
    labels = [
        Label(
            trajectory_id=run,
            capability_id=name,
            labeller="model:m",
            labelling_pass=1,
            label="LACKING",
            evidence=(1,),
            rationale="r",
        )
        for run, names in shown.items()
        for name in names
    ]
    judged = {
        ("both", "b"): LackCause(
            trajectory_id="both", capability_id="b", target="t", decisive="yes", judge="m", main=True
        )
    }
    rows = [
        Triage(
            trajectory_id=one.trajectory_id,
            task_id=one.task_id,
            target="t",
            policy="p",
            outcome="failed",
            fault="agent",
            rule="",
        )
        for one in runs
    ]
    told = [capability("a"), capability("b")]
    selected = [
        SelectedCapability(
            capability_id="b",
            target="t",
            name="B",
            kept=False,
            rank=2,
            reason="",
            marginal_coverage=None,
            same_as="a",
        )
    ]
    known = Diagnosed(runs, rows, told, labels, selected=selected, judged=judged)
    assert {one.trajectory_id: one.capability for one in explain(known)} == {
        "both": "a",
        "twice": "b",
        "first": "a",
    }
    apart = replace(known, selected=())
    assert {one.trajectory_id: one.capability for one in explain(apart)}["both"] == "b"
