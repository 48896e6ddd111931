"""Labelled runs of tasks that ask for two things: each counts for what its label is about."""

from __future__ import annotations

from functools import cache

import pytest

from tests.audit_fixtures.purpose.here import HerePool, findings
from tests.audit_fixtures.purpose.runner import SIZES
from tests.audit_fixtures.runner import ZOO_PERMUTATION, ZOO_RULES, record
from trace_assets.diagnosis.detectors import FAMILIES, Corpus, Proposal, Transcript
from trace_assets.environments.audit.check import Finding, Purpose, Subject
from trace_assets.environments.contract.decisions import decisions_of
from trace_assets.environments.contract.description import TargetContract, contract_of
from trace_assets.environments.writers.writer import write_environment
from trace_assets.records import CapabilitySpec, DecisionPattern, Trajectory
from trace_assets.settings import Synthesis, Targets
from trace_assets.targets.embedded.demonstrations import demonstrations
from trace_assets.targets.embedded.target import EmbeddedTarget

LABELLED = "trace.purpose.labelled_runs"
LOOK = ("write_without_read", "cancel_order")
WINDOW = ("write_against_state", "refund_item")
SEVERAL = ("object_untouched", "order")


@cache
def target() -> EmbeddedTarget:
    return EmbeddedTarget(Targets(options={"desk": "b"}))


@cache
def runs() -> tuple[Trajectory, ...]:
    """What an agent does at desk `b` that has the desk's mistakes: two wishes a task."""
    drawn = [one for one in demonstrations(7, 1, 360, "b") if one.skill not in ("cancel", "window", "multi")]
    return tuple(
        Trajectory(
            trajectory_id=f"run-{n}",
            task_id=f"task-{n}",
            target="embedded",
            task_batch="b1",
            policy="scripted",
            success=not one.flawed,
            stop="completed",
            messages=one.messages,
        )
        for n, one in enumerate(drawn)
    )


@cache
def contract() -> TargetContract:
    return contract_of("embedded", target().tools, target().policy, list(runs()))


@cache
def proposals() -> dict[tuple[str, str], Proposal]:
    corpus = Corpus([Transcript(run) for run in runs()], target().tools, target().policy)
    found: dict[tuple[str, str], Proposal] = {}
    for family in FAMILIES:
        if family.name in (LOOK[0], WINDOW[0], SEVERAL[0]):
            for one in family.propose(corpus):
                found[family.name, str(one.args.get("tool") or one.args["argument"])] = one
    return found


def spec(which: tuple[str, str]) -> CapabilitySpec:
    one = proposals()[which]
    return CapabilitySpec(
        capability_id="-".join(which),
        target="embedded",
        name=one.name,
        description=one.description,
        detector=which[0],
        detector_args=one.args,
    )


@cache
def purpose(which: tuple[str, str], attributed: bool = True) -> Purpose:
    family, args = next(one for one in FAMILIES if one.name == which[0]), proposals()[which].args
    found: list[DecisionPattern] = []
    for run in runs()[:120]:
        label = family.label(Transcript(run), args)
        found += decisions_of(run, label.label, "-".join(which), label.evidence if attributed else ())
    return Purpose(spec(which), tuple(found))


@cache
def source(which: tuple[str, str]) -> str:
    return write_environment(spec(which), contract()).source


def labelled(written: str, about: Purpose) -> Finding:
    return checked(written, about, [LABELLED])[LABELLED]


def checked(written: str, about: Purpose, names: list[str]) -> dict[str, Finding]:
    subject = Subject(
        record(written, "embedded"),
        HerePool(),  # type: ignore[arg-type]
        Synthesis(audit_seeds=32, audit_rollouts=2),
        contract(),
        ZOO_PERMUTATION,
        rules=ZOO_RULES,
        sizes=SIZES,
        purpose=about,
    )
    return findings(subject, names)


@pytest.mark.parametrize("which", [LOOK, WINDOW])
def test_the_right_environment_pays_like_the_labelled_runs(which: tuple[str, str]) -> None:
    found = labelled(source(which), purpose(which))
    assert found.status == "pass", found.evidence


def test_runs_by_all_that_they_touch_would_reject_it() -> None:
    assert labelled(source(LOOK), purpose(LOOK, attributed=False)).status == "fail"


def test_an_inverted_environment_is_rejected() -> None:
    looked = 'looked = identifier in _episode["reads"]'
    written = source(LOOK)
    assert looked in written
    inverted = written.replace(looked + " and all(write", "looked = not all(write")
    assert labelled(inverted, purpose(LOOK)).status == "fail"


@pytest.mark.parametrize(("other", "which"), [(LOOK, WINDOW), (WINDOW, LOOK)])
def test_an_environment_for_the_other_capability_is_rejected(
    other: tuple[str, str], which: tuple[str, str]
) -> None:
    checks = ["trace.purpose.tools", "trace.purpose.looked_up", LABELLED]
    found = checked(source(other), purpose(which), checks)
    assert "fail" in {one.status for one in found.values()}


def test_a_label_that_shows_what_was_never_called_is_about_no_decision() -> None:
    """Nothing that a run did about one order says that it left another one alone."""
    assert {one.label for one in purpose(SEVERAL).runs if one.calls} == {"PRESENT", "NA"}
    assert {one.thing for one in purpose(SEVERAL).runs if one.label == "LACKING"} == {""}
    found = labelled(source(SEVERAL), purpose(SEVERAL))
    assert found.status == "skip" and "0 LACKING" in found.evidence


def test_a_run_of_two_wishes_decides_about_the_order_that_its_label_shows() -> None:
    family = next(one for one in FAMILIES if one.name == LOOK[0])
    lacking = 0
    for run in runs():
        label = family.label(Transcript(run), proposals()[LOOK].args)
        calls = [call for message in run.messages for call in message.tool_calls]
        if label.label != "LACKING" or len({call.arguments["order"] for call in calls}) < 2:
            continue
        lacking += 1
        found = decisions_of(run, label.label, "c", label.evidence)
        looked = {call.arguments["order"] for call in calls if call.name == "get_order"}
        unseen = [call.arguments["order"] for call in calls if call.name == "cancel_order"]
        assert [one.thing for one in found] == [order for order in unseen if order not in looked][:1]
        assert len(decisions_of(run, label.label, "c")) > len(found)
    assert lacking
