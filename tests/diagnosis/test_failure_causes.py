"""Why a run failed: which of several lacks is named, in what words, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.diagnosis.test_expected import CANCEL, run, task
from trace_assets.diagnosis.failure_causes import Diagnosed, explain, fits, settled
from trace_assets.diagnosis.triage import SECOND_LOOK, triage
from trace_assets.records import (
    ActionDiff,
    Capability,
    Consensus,
    Contrast,
    FailureCause,
    Label,
    LackCause,
    Message,
    Proposal,
    SelectedCapability,
    Trajectory,
    Triage,
)


def capability(name: str, detector: str | None = "repeated_error", **args: Any) -> Capability:
    return Capability(
        capability_id=name,
        target="gym",
        name=f"Do {name}",
        description="",
        analyst="detectors",
        detector=detector,
        detector_args=args,
    )


def lacks(name: str, of: str, *at: int, by: str = "detectors", why: str = "") -> Label:
    return Label(
        trajectory_id=name, capability_id=of, labeller=by, label="LACKING", evidence=at, rationale=why
    )


def contrast(of: str, coverage: float, passed_lacking: int) -> Contrast:
    empty = dict.fromkeys(
        (name for name, field in Contrast.model_fields.items() if field.is_required()), None
    )
    counts = {name: 10 for name in empty if name.startswith("n_")}
    row = {"capability_id": of, "target": "gym", "coverage": coverage, "n_passed_lacking": passed_lacking}
    return Contrast.model_validate({**empty, **counts, **row})


SURPLUS = run(
    ("get_course", {"course_id": "C-101"}, "{}"),
    ("book_course", {"course_id": "C-202", "seats": 2}, "{}"),
    ("cancel_course", {"course_id": "C-101"}, "{}"),
)
"""It books what nobody expects: message 3."""


def one_cause(
    labels: Sequence[Label],
    capabilities: Sequence[Capability],
    run_: Trajectory = SURPLUS,
    rows: Sequence[Triage] | None = None,
    **more: Any,
) -> FailureCause:
    tasks = task(CANCEL)
    judged = triage([run_], tasks=tasks) if rows is None else rows
    (cause,) = explain(Diagnosed([run_], judged, capabilities, labels, tasks=tasks, **more))
    return cause


def test_what_nothing_explains_is_told_by_what_was_done_otherwise() -> None:
    cause = one_cause([], [])
    assert (cause.party, cause.capability, cause.decisive_message, cause.confidence) == (
        *("agent", None, 3),
        "low",
    )
    assert "did book_course(course_id='C-202', seats=2), which was not expected" in cause.words
    assert cause.repaired is None


def test_who_is_only_suspected_stands_beside_the_cause_whatever_explains_it() -> None:
    seen = {"suspected": "user_simulator", "suspicion": "users_choice (message 1): it chose otherwise"}
    (row,) = triage([SURPLUS], tasks=task(CANCEL))
    for labels in ([], [lacks("r1", "care", 2)]):
        cause = one_cause(labels, [capability("care")], rows=[row.model_copy(update=seen)])
        assert (cause.party, cause.suspected, cause.suspicion) == ("agent", *seen.values())


def test_of_several_lacks_the_one_that_the_difference_comes_from_is_named() -> None:
    forbidden = capability("refrain", "write_against_state", tool="book_course")
    often = capability("habit")
    labels = [lacks("r1", "habit", 1), lacks("r1", "refrain", 3, why="it was full")]
    figures = [contrast("habit", 0.9, 0), contrast("refrain", 0.1, 0)]
    cause = one_cause(labels, [often, forbidden], contrasts=figures)
    assert (cause.capability, cause.decisive_message) == ("refrain", 3)
    assert cause.words == "Do refrain: it was full" and cause.rule == "write_against_state"


def test_else_the_one_that_more_failures_and_fewer_passes_show() -> None:
    names = ("habit", "rare", "telling")
    figures = [contrast("habit", 0.9, 8), contrast("rare", 0.05, 0), contrast("telling", 0.5, 1)]
    labels = [lacks("r1", name, 1) for name in names]
    everything = [capability(name) for name in names]
    assert one_cause(labels, everything, contrasts=figures).capability == "telling"
    kept = SelectedCapability(
        capability_id="telling",
        target="gym",
        name="n",
        kept=True,
        rank=1,
        reason="",
        marginal_coverage=None,
    )
    sure = one_cause(labels, everything, contrasts=figures, selected=[kept])
    assert (sure.capability, sure.confidence) == ("telling", "medium")


def test_a_value_that_nobody_had_said_follows_from_the_look_before_the_same_call() -> None:
    guess = capability("guess", "unsupported_argument")
    everything = [capability("look", "write_without_read"), guess]
    figures = [contrast("guess", 0.9, 0), contrast("look", 0.3, 0)]
    labels = [lacks("r1", "guess", 3), lacks("r1", "look", 3)]
    assert one_cause(labels, everything, contrasts=figures).capability == "look"
    elsewhere = [lacks("r1", "guess", 3), lacks("r1", "look", 1)]
    assert one_cause(elsewhere, everything, contrasts=figures).capability == "guess"


@pytest.mark.parametrize("said", [(), ("broad", "case")])
def test_a_case_says_it_more_exactly_than_its_parent(said: Sequence[str]) -> None:
    broad, case = capability("broad", None), capability("case", None).model_copy(update={"parent": "broad"})
    labels = [lacks("r1", "broad", 1, by="model:m"), lacks("r1", "case", 1, by="model:m")]
    judged = {
        ("r1", name): LackCause(
            trajectory_id="r1", capability_id=name, target="gym", decisive="yes", judge="model:m"
        )
        for name in said
    }
    figures = [contrast("broad", 0.9, 0), contrast("case", 0.1, 0)]
    assert one_cause(labels, [broad, case], contrasts=figures, judged=judged).capability == "case"
    assert one_cause(labels[:1], [broad, case], contrasts=figures).capability == "broad"


def test_what_a_repair_showed_comes_before_all_else_and_is_told() -> None:
    labels = [lacks("r1", "often", 1), lacks("r1", "mended", 1), lacks("r1", "tried", 1)]
    everything = [capability(name) for name in ("often", "mended", "tried")]
    figures = [contrast("often", 0.9, 0)]
    repaired = {("r1", "mended"): True, ("r1", "tried"): False}
    cause = one_cause(labels, everything, contrasts=figures, repaired=repaired)
    assert (cause.capability, cause.repaired, cause.confidence) == ("mended", True, "high")
    alone = one_cause(labels[2:], everything, repaired=repaired)
    assert (alone.capability, alone.repaired, alone.confidence) == ("tried", False, "low")


def said(of: str, decisive: str) -> dict[tuple[str, str], LackCause]:
    row = {
        "trajectory_id": "r1",
        "capability_id": of,
        "target": "gym",
        "decisive": decisive,
        "judge": "model:m",
    }
    return {("r1", of): LackCause.model_validate(row)}


def test_what_a_model_says_of_a_lack_decides_between_lacks() -> None:
    labels = [lacks("r1", name, 1, by="model:m") for name in ("often", "named", "style")]
    everything = [capability(name, None) for name in ("often", "named", "style")]
    figures = [contrast("often", 0.9, 0), contrast("style", 0.5, 0)]
    judged = said("named", "yes") | said("often", "cannot_tell")
    cause = one_cause(labels, everything, contrasts=figures, judged=judged)
    assert (cause.capability, cause.confidence, cause.source) == ("named", "medium", "model")
    cause = one_cause(labels, everything, contrasts=figures, judged=said("often", "no"))
    assert (cause.capability, cause.confidence) == ("style", "low")
    mended = {("r1", "often"): True}  # that the run passes then weighs more than what anybody says
    cause = one_cause(labels, everything, contrasts=figures, judged=said("often", "no"), repaired=mended)
    assert (cause.capability, cause.repaired) == ("often", True)


def test_of_lacks_that_each_decided_the_end_the_first_is_named_and_then_the_narrowest() -> None:
    everything = [capability(name, None) for name in ("broad", "early", "late")]
    labels = [lacks("r1", one.capability_id, 1, by="model:m") for one in everything]
    figures = [contrast("broad", 0.9, 0), contrast("early", 0.2, 0), contrast("late", 0.5, 0)]
    at = {"broad": (3, 5), "early": (5, 3), "late": (4,)}
    judged = {
        key: row.model_copy(update={"evidence": at[name]})
        for name in at
        for key, row in said(name, "yes").items()
    }
    assert one_cause(labels, everything, contrasts=figures, judged=judged).capability == "broad"
    wider = [
        row.model_copy(update={"n_failed_relevant": 40 if row.coverage == 0.9 else 9}) for row in figures
    ]
    assert one_cause(labels, everything, contrasts=wider, judged=judged).capability == "early"
    assert one_cause(labels[1:], everything, contrasts=figures, judged=judged).capability == "early"
    late = ("r1", "late")  # whoever was shown all of them and names one knows better
    named = judged | {late: judged[late].model_copy(update={"main": True})}
    assert one_cause(labels, everything, contrasts=wider, judged=named).capability == "late"


def test_lacks_that_decided_nothing_explain_nothing() -> None:
    judged = said("style", "no")
    cause = one_cause([lacks("r1", "style", 1)], [capability("style")], judged=judged)
    assert cause.capability is None and "which was not expected" in cause.words


def ruled(rule: str, fault: str) -> list[Triage]:
    values = {"trajectory_id": "r1", "target": "gym", "task_id": "gym/1", "outcome": "failed"}
    return [Triage.model_validate({**values, "fault": fault, "rule": rule, "detail": "it said so"})]


@pytest.mark.parametrize(
    ("rule", "source", "confidence"), [("stuck", "rule", "high"), (SECOND_LOOK, "model", "medium")]
)
def test_anothers_fault_names_no_lack_of_the_agents(rule: str, source: str, confidence: str) -> None:
    labels, rows = [lacks("r1", "habit", 1)], ruled(rule, "user_simulator")
    cause = one_cause(labels, [capability("habit")], rows=rows)
    assert (cause.party, cause.capability, cause.words) == ("user_simulator", None, "it said so")
    assert (cause.source, cause.confidence) == (source, confidence)


@pytest.mark.parametrize(
    ("shown", "at"),
    [((2, 3), 2), ((4, 7), 4), ((2, 8), 8), ((), 8), ((7,), 8)],
    ids=[
        "the first that shows it",
        "not the agent's",
        "the one that ended it",
        "silence",
        "only the agent's",
    ],
)
def test_where_the_simulated_user_is_at_fault_its_own_message_is_decisive(
    shown: tuple[int, ...], at: int
) -> None:
    said = [Message(role="user" if n % 2 == 0 else "assistant", content=str(n)) for n in range(9)]
    (row,) = ruled("denied_state", "user_simulator")
    rows = [row.model_copy(update={"evidence": shown})]
    assert (
        one_cause([], [], SURPLUS.model_copy(update={"messages": tuple(said)}), rows).decisive_message == at
    )


def test_of_what_a_model_reads_of_a_simulated_user_only_the_end_is_decisive_by_itself() -> None:
    (row,) = ruled(SECOND_LOOK, "user_simulator")
    ends = len(SURPLUS.messages) - 1
    read = [row.model_copy(update={"evidence": (0,)})]
    assert one_cause([], [], rows=read).decisive_message == 3
    said = (*SURPLUS.messages[:-1], Message(role="user", content="###STOP###"))
    left = [row.model_copy(update={"evidence": (0, ends)})]
    stopped = SURPLUS.model_copy(update={"messages": said})
    assert one_cause([], [], stopped, left).decisive_message == ends


def test_what_a_model_said_of_an_agents_failure_is_told_where_no_lack_explains_it() -> None:
    (row,) = ruled(SECOND_LOOK, "agent")
    told = [row.model_copy(update={"evidence": (1, 2)})]
    cause = one_cause([], [], rows=told)
    assert (cause.party, cause.words, cause.source, cause.confidence) == (
        "agent",
        "it said so",
        "model",
        "low",
    )
    lack, wide = [lacks("r1", "care", 1, by="model:m", why="it rushed")], [capability("care", None)]
    assert one_cause(lack, wide, rows=told).words == "Do care: it rushed"


def test_what_no_label_explains_is_what_was_proposed_because_of_it() -> None:
    def proposed(number: int, name: str | None, *witnesses: str) -> Proposal:
        values = {
            "target": "gym",
            "analyst": "model:m",
            "name": "n",
            "description": "d",
            "merged_by": "model",
        }
        more = {"proposal_id": f"p1-{number}", "discovery_pass": 1, "trajectories": witnesses}
        return Proposal.model_validate({**values, **more, "merged_into": name})

    broad = capability("broad", None).model_copy(update={"analyst": "model:m"})
    named = [
        capability(name, None).model_copy(update={"analyst": "model:m", "parent": "broad"}) for name in "abc"
    ]
    rows = [
        proposed(1, "a", "r9"),
        proposed(2, "b", "r1"),
        proposed(3, "c", "r1"),
        proposed(4, "c", "r1", "r9"),
    ]
    rows += [proposed(5, "broad", "r1"), proposed(6, "broad", "r1"), proposed(7, "broad", "r1")]
    rows += [proposed(8, None, "r1"), proposed(9, "gone", "r1")]
    cause = one_cause([], [broad, *named], proposals=rows)
    assert (cause.capability, cause.source, cause.rule, cause.confidence) == ("c", "model", "model:m", "low")
    assert cause.words == "Do c" and cause.decisive_message == 3
    told = one_cause([], [broad, *named], proposals=rows, rows=ruled(SECOND_LOOK, "agent"))
    assert told.words == "Do c: it said so"
    assert one_cause([], [broad, *named], proposals=rows, judged=said("c", "no")).capability == "b"
    assert one_cause([lacks("r1", "a", 1)], [broad, *named], proposals=rows).capability == "a"
    both, figures = [lacks("r1", "a", 1), lacks("r1", "b", 1)], [contrast("a", 0.9, 0), contrast("b", 0.1, 0)]
    assert one_cause(both, named, contrasts=figures).capability == "a", "more failures show it"
    assert one_cause(both, named, contrasts=figures, proposals=rows).capability == "b", "this one showed b"
    decided = said("a", "yes")
    assert one_cause(both, named, contrasts=figures, proposals=rows, judged=decided).capability == "a"
    assert (
        one_cause([], [broad, *named], proposals=rows, rows=ruled("stuck", "environment")).capability is None
    )


@pytest.mark.parametrize(("decisive", "at"), [("yes", 5), ("cannot_tell", 1), ("no", 1)])
def test_the_message_is_that_of_the_lack_that_decided_it_or_of_triage(decisive: str, at: int) -> None:
    (row,) = ruled(SECOND_LOOK, "agent")
    judged = {key: one.model_copy(update={"evidence": (5,)}) for key, one in said("care", decisive).items()}
    diagnosed = Diagnosed(
        [SURPLUS],
        [row.model_copy(update={"evidence": (1, 2)})],
        [capability("care", None)],
        [lacks("r1", "care", 3, by="model:m")],
        judged=judged,
    )
    (cause,) = explain(diagnosed)
    assert cause.decisive_message == at


def test_a_models_label_is_a_models_word() -> None:
    cause = one_cause([lacks("r1", "care", 2, by="model:m")], [capability("care", None)])
    assert (cause.source, cause.rule) == ("model", "model:m")


def test_every_failure_has_a_row_and_no_pass_has() -> None:
    runs = [
        SURPLUS,
        SURPLUS.model_copy(update={"trajectory_id": "r2", "success": True, "reward": 1.0}),
        SURPLUS.model_copy(update={"trajectory_id": "r3", "success": None, "reward": None}),
    ]
    causes = explain(Diagnosed(runs, triage(runs)))
    assert [cause.trajectory_id for cause in causes] == ["r1", "r3"]


DAY = {"tool": "book", "argument": "day"}


def difference(kind: str, tool: str, changed: tuple[str, ...] = (), message: int | None = None) -> ActionDiff:
    values = {"trajectory_id": "r1", "number": 0, "target": "gym", "task_id": "gym/1", "policy": "p"}
    return ActionDiff.model_validate(
        {**values, "kind": kind, "tool": tool, "changed": changed, "message": message}
    )


@pytest.mark.parametrize(
    ("detector", "args", "row", "fit"),
    [
        ("write_against_state", {"tool": "book"}, difference("surplus", "book", message=3), True),
        ("write_against_state", {"tool": "book"}, difference("surplus", "book", message=9), False),
        ("write_against_state", {"tool": "pay"}, difference("surplus", "book", message=3), False),
        ("write_against_state", {"tool": "book"}, difference("missed", "book"), False),
        ("unsupported_argument", DAY, difference("altered", "book", ("day",)), True),
        ("unsupported_argument", DAY, difference("altered", "book", ("n",)), False),
        ("ended_with_work_open", {"writes": ["book"]}, difference("missed", "book"), True),
        (None, {"tool": "book"}, difference("surplus", "book", message=3), False),
    ],
)
def test_a_lack_fits_the_difference_that_it_would_make(
    detector: str | None, args: Mapping[str, Any], row: ActionDiff, fit: bool
) -> None:
    assert fits(capability("c", detector, **args), lacks("r1", "c", 3), [row]) is fit


def test_labels_that_the_passes_do_not_settle_on_are_left_out() -> None:
    said = {"a": "PRESENT", "b": "LACKING"}
    rows = [
        Consensus.model_construct(capability_id=name, trajectory_id="r1", label=value)
        for name, value in said.items()
    ]
    labels = [lacks("r1", name) for name in ("a", "b", "c")]
    assert [one.capability_id for one in settled(labels, rows)] == ["b", "c"]


def test_an_expected_write_that_was_never_made_is_told() -> None:
    idle = run(("get_course", {"course_id": "C-101"}, "{}"))
    assert one_cause([], [], idle).words == "never did cancel_course(course_id='C-101')"


def test_of_cases_that_decided_the_end_the_one_that_arises_in_fewest_runs_is_named() -> None:
    def cause_of(args: Mapping[str, str], verdicts: Mapping[str, str], *detectors: str) -> str:
        of = [name or None for name in detectors or ("", "")]
        listed = [
            capability(name, of[place % len(of)], **args) for place, name in enumerate(("common", "rare"))
        ]
        rows = [contrast("common", 0.9, 0), contrast("rare", 0.1, 0)]
        rows[0] = rows[0].model_copy(update={"n_failed_relevant": 8})
        rows[1] = rows[1].model_copy(update={"n_failed_relevant": 1, "n_passed_relevant": 0})
        who = SURPLUS.trajectory_id
        judged = {
            (who, name): LackCause(
                trajectory_id=who, capability_id=name, target="gym", decisive=said, judge="model:m"
            )
            for name, said in verdicts.items()
        }
        labels = [lacks(who, name, 3, by="model:m") for name in ("common", "rare")]
        cause = one_cause(labels, listed, contrasts=rows, judged=judged)
        return str(cause.capability)

    both = {"common": "yes", "rare": "yes"}
    assert cause_of({"tool": "book_course"}, both) == "rare"
    assert cause_of({"tool": "book_course"}, {**both, "rare": "cannot_tell"}) == "common"
    assert cause_of({"tool": "book_course"}, both, "", "repeated_error") == "common", (
        "a detector's is no case"
    )
    assert cause_of({}, both) == "common", "a habit is named by what contrast says of it"
    assert cause_of({"tool": "book_course"}, both, "repeated_error") == "common", "so is a detector's"
