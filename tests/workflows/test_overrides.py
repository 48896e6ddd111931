"""What a person says of one run, one task or one label stands in the place of rules, with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.workflows.test_ground_truth import BATCH, diagnosed, study_of
from trace_assets.assets.contrast import estimate_contrast
from trace_assets.assets.labels import label_batch
from trace_assets.assets.triage import triage_batch, write_suspects
from trace_assets.errors import InputError
from trace_assets.records import Capability, Contrast, FailureCause, Label, SuspectTask, Triage
from trace_assets.report.data import gather
from trace_assets.report.headline import overridden
from trace_assets.report.one_trajectory import gather_trajectory, render_trajectory
from trace_assets.report.page import render
from trace_assets.settings import load_settings
from trace_assets.study import Study

READ = "I read it and it could not know"


def toml(value: Any) -> str:
    """Write a table on one line."""
    if isinstance(value, str):
        return json.dumps(value)
    return "{" + ", ".join(f"{json.dumps(key)} = {toml(inner)}" for key, inner in value.items()) + "}"


def again(study: Study, **settings: Any) -> Study:
    """Return the same home under other settings."""
    said = [f"{key}={toml(value)}" for key, value in settings.items()]
    return Study(study.home, load_settings(None, ["discovery.min_support=4", *said]))


def triaged(study: Study) -> dict[str, Triage]:
    triage_batch(study, BATCH)
    return {row.trajectory_id: row for row in study.store.read(Triage)}


def test_one_runs_fault_is_overridden_and_nothing_else_moves(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    before = triaged(study)
    assert before["wrong"].fault == "ground_truth" and before["r00"].fault == "agent"
    said = {"wrong": f"agent: {READ}", "r00": f"environment: {READ}", "r01": f"unjudged: {READ}"}
    study = again(study, **{"triage.run_overrides": said})
    after = triaged(study)
    assert {name for name in after if after[name] != before[name]} == set(said)
    ruled = {name: (after[name].outcome, after[name].fault, after[name].rule) for name in said}
    assert ruled == {
        "wrong": ("failed", "agent", "override"),
        "r00": ("failed", "environment", "override"),
        "r01": ("unjudged", "environment", "override"),
    }
    assert after["wrong"].detail.startswith(f"{READ} (before: ground_truth by value_in_no_record: ")
    assert after["r01"].detail == f"{READ} (before: passed)"
    assert triaged(again(study)) == before


def test_one_task_is_called_sound_or_put_aside(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    said = {"gym/99": f"sound: {READ}", "gym/3": f"aside: {READ}"}
    study = again(study, **{"triage.task_overrides": said})
    write_suspects(study)
    rows = {row.task_id: row for row in study.store.read(SuspectTask)}
    sound, aside = rows["gym/99"], rows["gym/3"]
    assert (sound.grade, sound.aside, sound.rule) == ("suspected", False, "override")
    assert sound.detail.startswith(f"{READ} (before: wrong by value_in_no_record: ")
    assert (aside.grade, aside.aside, aside.n_passed, aside.n_failed) == ("wrong", True, 1, 0)
    assert triaged(study)["wrong"].fault == "agent"  # what is demanded there is demanded rightly


def test_one_label_is_overridden_moves_its_rates_and_can_be_taken_back(tmp_path: Path) -> None:
    study = diagnosed(tmp_path)
    (capability,) = study.store.read(Capability)
    (row,) = study.store.read(Contrast)
    before = study.store.read(Label)
    said = {capability.name: {"r00": f"PRESENT: {READ}"}}
    for _ in range(2):  # the second time what is stored is the override
        study = again(study, **{"labels.overrides": said})
        assert label_batch(study, BATCH).figures["kept"] == len(before)
        changed = [row for row in study.store.read(Label) if row not in before]
        assert [(one.trajectory_id, one.label) for one in changed] == [("r00", "PRESENT")]
        assert changed[0].rationale.startswith(f"{READ} (override; before: LACKING")
        assert changed[0].rationale.count("override; before") == 1
    estimate_contrast(study)
    (after,) = study.store.read(Contrast)
    assert after.n_failed_lacking == row.n_failed_lacking - 1 and after.n_failed == row.n_failed
    assert overridden(gather(study.store)) == "Decided by override, and not by rules or labellers: 1 label."
    taken_back = again(study)
    assert label_batch(taken_back, BATCH).figures["kept"] == len(before) - 1
    assert study.store.read(Label) == before


def test_pages_say_what_a_person_decided(tmp_path: Path) -> None:
    settings = {"triage.run_overrides": toml({"wrong": f"environment: {READ}"})}
    study = diagnosed(tmp_path, **settings, **{"triage.task_overrides": toml({"gym/99": f"sound: {READ}"})})
    (cause,) = [row for row in study.store.read(FailureCause) if row.trajectory_id == "wrong"]
    assert (cause.party, cause.rule) == ("environment", "override") and READ in cause.words
    words = "Decided by override, and not by rules or labellers: 1 run, 1 task."
    assert words in render(gather(study.store))
    one = gather_trajectory(study.store, "wrong")
    assert one.overridden in render_trajectory(one) and one.overridden.startswith(READ)
    assert gather_trajectory(study.store, "r00").overridden == ""


@pytest.mark.parametrize(
    ("setting", "said", "words"),
    [
        ("triage.run_overrides", {"r0": f"agent: {READ}"}, "'r0', which is no run; did you mean 'r"),
        ("triage.run_overrides", {"r01": f"agent: {READ}"}, "but that run passed"),
        ("triage.task_overrides", {"zoo": f"sound: {READ}"}, "no task that was played; there are 21."),
        ("labels.overrides", {"Fly": {"r00": f"NA: {READ}"}}, "'Fly', which is no candidate's id or name"),
    ],
)
def test_what_is_not_there_is_refused(tmp_path: Path, setting: str, said: Any, words: str) -> None:
    study = again(study_of(tmp_path), **{setting: said})
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        triage_batch(study, BATCH)
        write_suspects(study)
        label_batch(study, BATCH)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ('triage.run_overrides={"r0" = "nobody: I read it"}', "known are agent, user_simulator"),
        ('triage.run_overrides={"r0" = "agent"}', "in a few words why"),
        ('triage.task_overrides={"t" = "fine: I read it"}', "known are sound, aside"),
        ('labels.overrides={"c" = {"r" = "lacking: I read it"}}', "known are NA, PRESENT, LACKING"),
    ],
)
def test_an_override_names_a_verdict_and_a_reason(setting: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        load_settings(None, [setting])
