"""What is expected and what is wrong with tasks: written for people, kept from whoever labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.diagnosis.test_expected import CANCEL, PROFILE, run, task, want
from tests.truth.outcome import Tried, diagnose
from trace_assets.assets.asset import Asset, asset_of
from trace_assets.assets.capability_dictionary import discover
from trace_assets.assets.contrast import estimate_contrast
from trace_assets.assets.failure_causes import write_causes
from trace_assets.assets.labels import label_batch, write_batch_capabilities
from trace_assets.assets.selected_capabilities import select_capabilities
from trace_assets.assets.triage import triage_batch, write_lucky, write_suspects
from trace_assets.diagnosis.candidates import Expected
from trace_assets.diagnosis.detector_analyst import DetectorAnalyst
from trace_assets.records import (
    ActionDiff,
    Capability,
    Contrast,
    FailureCause,
    Label,
    LuckyPass,
    Message,
    Record,
    ShownTranscript,
    SuspectTask,
    Task,
    ToldTask,
    ToolUse,
    Trajectory,
    Triage,
)
from trace_assets.resources.analysts import evidence_by_target
from trace_assets.settings import Discovery, load_settings
from trace_assets.store import Home, Store
from trace_assets.store.trajectories import write_trajectories
from trace_assets.study import Study


def declared(work: object) -> Asset:
    found = asset_of(work)
    assert found is not None
    return found


BATCH = "gym"
GUEST = {"first": "Ada", "last": "Byron", "born": "1991-12-24"}
WRONG = want("book_course", course_id="C-101", guests=[GUEST])
LOOK = ("get_member", {"member_id": "m_17"}, PROFILE)
SECRETS: tuple[type[Record], ...] = (
    *(Task, ToldTask, Triage, ActionDiff, ToolUse, SuspectTask),
    *(LuckyPass, FailureCause),
)


def runs() -> list[Trajectory]:
    """Ten tasks that are cancelled when looked up first, ten that are not; and one wrong task."""
    made = []
    for n in range(20):
        course = {"course_id": f"C-{500 + n}"}
        cancel = ("cancel_course", course, "{}")
        calls = (
            [("get_course", course, '{"course_id": "x", "status": "open"}'), cancel] if n % 2 else [cancel]
        )
        made.append(run(*calls, name=f"r{n:02}", task=f"gym/{n}", success=bool(n % 2)))
    return [
        *made,
        run(LOOK, name="wrong", task="gym/99"),
        run(LOOK, name="lucky", task="gym/99", success=True),
    ]


def study_of(path: Path, **settings: Any) -> Study:
    study = Study(Home.open(path), load_settings(None, [f"{key}={value}" for key, value in settings.items()]))
    tasks = [
        one
        for n in range(20)
        for one in task(want("cancel_course", course_id=f"C-{500 + n}"), name=f"gym/{n}").values()
    ]
    study.store.write([*tasks, *task(WRONG, name="gym/99").values()], Task, BATCH)
    write_trajectories(study.store, runs(), BATCH)
    triage_batch(study, BATCH)
    write_suspects(study)
    return study


def test_differences_and_refusals_are_tables(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    (diff,) = study.store.read(ActionDiff)
    assert (diff.trajectory_id, diff.kind, diff.tool, diff.expected_arguments["guests"]) == (
        "wrong",
        "missed",
        "book_course",
        [GUEST],
    )
    used = {row.tool: row for row in study.store.read(ToolUse)}
    assert (used["cancel_course"].n_calls, used["cancel_course"].n_errors) == (20, 0)
    assert {row.trajectory_id for row in study.store.read(Triage) if row.fault == "ground_truth"} == {"wrong"}


@pytest.mark.parametrize(("setting", "aside"), [("aside", True), ("keep", False)])
def test_wrong_tasks_are_put_aside_unless_taken_back(tmp_path: Path, setting: str, aside: bool) -> None:
    study = study_of(tmp_path, **{"triage.suspect_tasks": setting, "discovery.min_support": 4})
    (row,) = [row for row in study.store.read(SuspectTask) if row.task_id == "gym/99"]
    assert (row.task_id, row.rule, row.aside, row.n_passed, row.n_failed) == (
        "gym/99",
        "value_in_no_record",
        aside,
        1,
        1,
    )
    discover(study)
    write_batch_capabilities(study, BATCH)
    label_batch(study, BATCH)
    estimate_contrast(study)
    (evidence,) = evidence_by_target(study)
    counted = {one.trajectory_id for one in evidence.triage}
    assert ("lucky" in counted, "wrong" in counted) == (not aside, not aside)


def test_what_is_only_suspected_stays(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    exact = run(("cancel_course", {"course_id": "C-777"}, "{}"), name="exact", task="gym/77")
    study.store.write([*task(want("cancel_course", course_id="C-777"), name="gym/77").values()], Task, "more")
    write_trajectories(study.store, [exact.model_copy(update={"task_batch": "more"})], "more")
    write_suspects(study)
    rows = {row.task_id: row for row in study.store.read(SuspectTask)}
    assert (rows["gym/77"].grade, rows["gym/77"].aside) == ("suspected", False)
    assert rows["gym/99"].aside


def test_whoever_labels_reads_no_ground_truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = study_of(tmp_path, **{"discovery.min_support": 4})
    discover(study)
    write_batch_capabilities(study, BATCH)
    seen: list[type[Record]] = []
    for name in ("read", "frame"):
        real = getattr(Store, name)

        def spy(self: Store, record: type[Record], *rest: Any, _real: Any = real, **named: Any) -> Any:
            seen.append(record)
            return _real(self, record, *rest, **named)

        monkeypatch.setattr(Store, name, spy)
    label_batch(study, BATCH)
    assert study.store.read(Capability) and Label in seen
    assert not set(seen) & set(SECRETS), "labelling opened a table that holds the ground truth or the outcome"


def test_labelling_depends_on_no_asset_that_holds_the_ground_truth() -> None:
    names = set(declared(label_batch).deps)
    assert not names & {"tasks", "triage", "suspect_tasks", "lucky_passes", "failure_causes"}
    assert not set(declared(discover).deps) & {"lucky_passes", "failure_causes"}
    assert set(declared(discover).deps) >= {"triage", "suspect_tasks"}


def test_labels_are_the_same_whatever_is_expected(tmp_path: Path) -> None:
    made = []
    for name, action in (("one", CANCEL), ("two", WRONG)):
        study = study_of(tmp_path / name, **{"discovery.min_support": 4})
        study.store.write(
            [task(action, name=one.task_id)[one.task_id] for one in study.store.read(Task)], Task, BATCH
        )
        analyst = DetectorAnalyst(Discovery(min_support=4))
        capabilities = analyst.discover(runs())
        assert capabilities
        study.store.write(capabilities, Capability)
        write_batch_capabilities(study, BATCH)
        label_batch(study, BATCH)
        made.append((study.store.read(Label), study.store.read(ShownTranscript)))
    assert made[0] == made[1]


def test_what_rules_on_faults_read_of_messages_is_hidden_from_labellers() -> None:
    lost = Message(
        role="assistant", content="", metadata={"completion_tokens": 40, "errors": ["refused: ..."]}
    )
    one = run().model_copy(update={"messages": (*run().messages, lost)})
    assert all(not message.metadata for message in one.blind().messages)


def diagnosed(path: Path, **settings: Any) -> Study:
    """Return a study in which everything up to the causes was made."""
    study = study_of(path, **{"discovery.min_support": 4, **settings})
    write_lucky(study)
    discover(study)
    write_batch_capabilities(study, BATCH)
    label_batch(study, BATCH)
    estimate_contrast(study)
    select_capabilities(study)
    write_causes(study)
    return study


def test_the_table_says_what_the_truth_benchmark_scores(tmp_path: Path) -> None:
    study = diagnosed(tmp_path)
    causes = {row.trajectory_id: row for row in study.store.read(FailureCause)}
    assert set(causes) == {*(f"r{n:02}" for n in range(0, 20, 2)), "wrong"}
    assert (causes["wrong"].party, causes["wrong"].capability) == ("ground_truth", None)
    assert {row.capability for name, row in causes.items() if name != "wrong"} == {
        "gym-write_without_read-cancel_course-get_course"
    }

    def analyst(_: str | None, policy: str, expected: Expected) -> DetectorAnalyst:
        return DetectorAnalyst(Discovery(min_support=4), policy=policy, expected=expected)

    scored = diagnose("gym", runs(), study.store.read(Task), Tried(analyst))
    assert sorted(scored.causes, key=lambda row: row.trajectory_id) == [
        causes[name] for name in sorted(causes)
    ]


def test_lucky_passes_count_unless_a_setting_leaves_them_out(tmp_path: Path) -> None:
    figures = {}
    for name, kinds in (("count", "[]"), ("aside", '["against_policy", "another_state"]')):
        study = study_of(tmp_path / name, **{"discovery.min_support": 4, "triage.lucky_passes": kinds})
        more = ("book_course", {"course_id": "C-1"}, "{}")
        changed = [
            run(
                *(("get_course", {"course_id": f"C-{500 + n}"}, '{"course_id": "x", "status": "open"}'),),
                *(("cancel_course", {"course_id": f"C-{500 + n}"}, "{}"), more),
                name=f"r{n:02}",
                task=f"gym/{n}",
                success=True,
            )
            for n in (1, 3)
        ]
        rest = [one for one in runs() if one.trajectory_id not in ("r01", "r03")]
        write_trajectories(study.store, [*changed, *rest], BATCH)
        write_lucky(study)
        discover(study)
        write_batch_capabilities(study, BATCH)
        label_batch(study, BATCH)
        estimate_contrast(study)
        aside = {row.trajectory_id for row in study.store.read(LuckyPass) if row.aside}
        (evidence,) = evidence_by_target(study)
        assert not aside & {row.trajectory_id for row in evidence.triage}
        rows = {row.capability_id: row for row in study.store.read(Contrast)}
        row = rows["gym-write_without_read-cancel_course-get_course"]
        figures[name] = (len(aside), row.n_passed_relevant, row.n_passed_aside)
    assert figures == {"count": (0, 10, 0), "aside": (3, 8, 2)}
