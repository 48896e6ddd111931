"""Passes that say little, on a gym that no benchmark has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.diagnosis.test_expected import CANCEL, run, task, want
from trace_assets.diagnosis.detector_analyst import DetectorAnalyst
from trace_assets.diagnosis.expected.doubts import lucky_passes
from trace_assets.diagnosis.expected.facts import Facts
from trace_assets.records import LuckyPass, SuspectTask, Task, Trajectory
from trace_assets.settings import Discovery

LOOK = ("get_course", {"course_id": "C-101"}, '{"course_id": "C-101", "status": "open"}')
DO = ("cancel_course", {"course_id": "C-101"}, "{}")
BOOK = ("book_course", {"course_id": "C-303", "seats": 1}, "{}")


def found(
    runs: Sequence[Trajectory], tasks: Mapping[str, Task], suspects: Sequence[SuspectTask] = ()
) -> list[LuckyPass]:
    corpus = DetectorAnalyst(Discovery()).corpus(runs)
    return lucky_passes(Facts(runs, tasks), corpus, suspects)


def kinds(runs: Sequence[Trajectory], tasks: Mapping[str, Task], **more: Any) -> list[tuple[str, str]]:
    return [(row.trajectory_id, row.kind) for row in found(runs, tasks, **more)]


def passed(*calls: Any, name: str = "r1", **changes: Any) -> Trajectory:
    return run(*calls, name=name, success=True, **changes)


def test_who_had_to_do_nothing_and_did_nothing_was_lucky() -> None:
    runs = [passed(LOOK, name="idle"), run(LOOK, name="failed"), passed(LOOK, DO, name="did")]
    assert kinds(runs, task()) == [("idle", "no_write_needed"), ("did", "another_state")]


def test_what_is_needed_and_done_is_no_luck() -> None:
    assert kinds([passed(LOOK, DO)], task(CANCEL)) == []


def test_changes_that_the_grader_does_not_see_are_told_with_their_place() -> None:
    (row,) = found([passed(LOOK, DO, BOOK)], task(CANCEL))
    assert (row.kind, row.evidence) == ("another_state", (5,))
    assert "did book_course(course_id='C-303', seats=1), which was not expected" in row.detail


def test_a_hand_over_is_no_change() -> None:
    gone = ("transfer_to_human_agents", {"summary": "s"}, "ok")
    assert kinds([passed(LOOK, gone)], task()) == [("r1", "no_write_needed")]
    asked = task(want("transfer_to_human_agents", summary="t"))
    assert kinds([passed(LOOK, gone)], asked) == [("r1", "no_write_needed")]


def test_what_nobody_knows_accuses_no_pass() -> None:
    assert kinds([passed(LOOK)], {}) == []
    untold = {name: one.model_copy(update={"has_expected": False}) for name, one in task().items()}
    assert kinds([passed(LOOK)], untold) == []


def test_a_pass_of_a_task_that_demands_what_is_forbidden_breaks_the_policy() -> None:
    values = {"task_id": "gym/1", "number": 0, "target": "gym", "grade": "wrong", "detail": "it was over"}
    breaking = SuspectTask.model_validate({**values, "rule": "past_object", "places": (0,)})
    (row,) = found([passed(LOOK, DO)], task(CANCEL), [breaking])
    assert (row.kind, row.rule) == ("against_policy", "past_object") and "it was over" in row.detail
    other = breaking.model_copy(update={"rule": "value_in_no_record"})
    assert found([passed(LOOK, DO)], task(CANCEL), [other]) == []


def test_a_date_that_had_passed_is_seen_in_passed_runs() -> None:
    runs = []
    for n in range(8):
        ends = "2031-01-01" if n % 4 == 0 else "2031-09-01"
        course = {"course_id": f"C-{n + 100}"}
        seen = f'{{"course_id": "C-{n + 100}", "status": "open", "end_date": "{ends}", "seats": {n}}}'
        calls = [("get_course", course, seen), ("cancel_course", course, '{"status": "cancelled"}')]
        runs.append(passed(*calls, name=f"r{n}", task=f"gym/{n}"))
    tasks = {
        name: one
        for n in range(8)
        for name, one in task(want("cancel_course", course_id=f"C-{n + 100}"), name=f"gym/{n}").items()
    }
    facts = Facts(runs, tasks)
    corpus = DetectorAnalyst(Discovery(), policy=facts.policy.text).corpus(runs)
    rows = lucky_passes(facts, corpus)
    assert [(row.trajectory_id, row.kind, row.rule) for row in rows] == [
        ("r0", "against_policy", "write_past_date"),
        ("r4", "against_policy", "write_past_date"),
    ]
