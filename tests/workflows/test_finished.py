"""What counts as finished work, and which differences would have it made again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trace_assets.records import (
    Adapter,
    Environment,
    Evaluation,
    Label,
    Lesson,
    MadeWith,
    Proposal,
    SeedOutcome,
    Task,
    Trajectory,
)
from trace_assets.settings import Settings
from trace_assets.store import Home
from trace_assets.store.trajectories import write_trajectories
from trace_assets.study import Study
from trace_assets.workflows.finished_work import KINDS, Cause, finished_work, would_replace
from trace_assets.workflows.made_with import SECTIONS, differences, made_otherwise, note_settings

CODE: dict[str, Cause] = {"its code changed": "code"}
INPUT: dict[str, Cause] = {"something changed": "input"}
SETTINGS: dict[str, Cause] = {"config/x changed": "settings"}


def study_at(folder: Path, **sections: dict[str, Any]) -> Study:
    return Study(Home.open(folder), Settings.model_validate(sections))


def _episode(number: int, trial: int = 0, **changes: Any) -> Trajectory:
    values = {"success": True, "reward": 1.0, **changes}
    return Trajectory(
        trajectory_id=f"t{number}-{trial}",
        task_id=f"embedded/{number}",
        target="embedded",
        task_batch="embedded",
        trial=trial,
        seed=trial,
        policy="somebody",
        **values,
    )


def _task(number: int) -> Task:
    return Task(
        task_id=f"embedded/{number}",
        target="embedded",
        split="discovery",
        task_batch="embedded",
        instruction=f"Cancel K{number}.",
    )


@pytest.fixture
def rolled_out(tmp_path: Path) -> Path:
    """A home with three tasks played twice each."""
    study = study_at(tmp_path)
    study.store.write([_task(number) for number in range(3)], Task, "embedded")
    write_trajectories(study.store, [_episode(n, trial) for n in range(3) for trial in range(2)], "embedded")
    note_settings(study, "trajectories", "embedded")
    return tmp_path


def test_every_asset_that_plays_trains_or_pays_notes_its_settings() -> None:
    assert set(SECTIONS) == set(KINDS) - {"tasks"}
    known = set(Settings.model_fields)
    assert all(section in known for sections in SECTIONS.values() for section in sections)


@pytest.mark.parametrize(
    ("section", "values", "says"),
    [
        ("rollouts", {"temperature": 0.5}, "rollouts.temperature was 1.0, is 0.5"),
        ("rollouts", {"trials": 1}, "rollouts.trials was 2, is 1"),
        ("rollouts", {"engine": "openai", "base_url": "http://h/v1"}, 'rollouts.engine was "transformers"'),
        ("targets", {"seed": 3}, "targets.seed was 0, is 3"),
        (
            "targets",
            {"options": {"user": {"kind": "new"}}},
            'targets.options.user.kind was not set, is "new"',
        ),
        ("base_model", {"seed": 3}, "base_model.seed was 0, is 3"),
        ("rollouts", {"trials": 3}, ""),
        ("rollouts", {"concurrency": 3, "retries": 0, "timeout_seconds": 1.0}, ""),
        ("rollouts", {"check_model": False}, ""),
        ("targets", {"processes": 3, "call_seconds": 1.0}, ""),
        ("training", {"iterations": 3}, ""),
    ],
)
def test_episodes_are_lost_to_settings_that_decide_them(
    rolled_out: Path, section: str, values: dict[str, Any], says: str
) -> None:
    why = would_replace(study_at(rolled_out, **{section: values}), "trajectories", "embedded")
    assert (says in why) if says else why == ""


def test_episodes_are_lost_to_other_code_and_never_to_what_is_only_missing(rolled_out: Path) -> None:
    study = study_at(rolled_out)
    assert finished_work(study, "trajectories", "embedded") == "6 episodes"
    assert would_replace(study, "trajectories", "embedded", CODE) == "its code changed"
    for causes in (None, {"never materialized": "missing"}, {"it reads config/targets now": "other"}):
        assert would_replace(study, "trajectories", "embedded", causes) == ""  # type: ignore[arg-type]
    study.store.write([_task(0)], Task, "embedded")
    assert would_replace(study, "trajectories", "embedded", INPUT) == (
        "4 of them are of tasks or trials that are not asked for now"
    )


def test_what_broke_and_what_was_brought_in_is_not_finished_here(rolled_out: Path) -> None:
    study = study_at(rolled_out)
    broken = [_episode(n, success=None, reward=None, fault="infrastructure") for n in range(3)]
    write_trajectories(study.store, broken, "embedded")
    assert finished_work(study, "trajectories", "embedded") == ""
    write_trajectories(study.store, [_episode(0, source="importer:x")], "embedded")
    assert finished_work(study, "trajectories", "embedded") == ""


def test_of_an_earlier_version_any_change_counts(rolled_out: Path) -> None:
    study = study_at(rolled_out)
    study.store.drop(MadeWith, "trajectories=embedded")
    assert differences(study, "trajectories", "embedded") is None
    assert would_replace(study, "trajectories", "embedded") == ""
    for causes in (CODE, INPUT, SETTINGS):
        assert would_replace(study, "trajectories", "embedded", causes) == next(iter(causes))
    assert made_otherwise(study) == []
    other = study_at(rolled_out, targets={"name": "library", "path": "x.py"})
    assert made_otherwise(other) == [
        'embedded: these 6 rollouts were made with other settings: targets.name was "embedded", is "library".'
    ]


def test_a_setting_that_came_later_is_no_difference_at_its_default(rolled_out: Path) -> None:
    study = study_at(rolled_out)
    rows = [
        row
        for row in study.store.read(MadeWith, "trajectories=embedded")
        if row.setting not in ("rollouts.max_context", "rollouts.dtype")
    ]
    gone = MadeWith(asset="trajectories", partition="embedded", setting="rollouts.gone", value="1")
    study.store.write([*rows, gone], MadeWith, "trajectories=embedded")
    assert differences(study, "trajectories", "embedded") == []
    set_now = study_at(rolled_out, rollouts={"max_context": 9})
    assert [str(one) for one in differences(set_now, "trajectories", "embedded") or []] == [
        "rollouts.max_context was 0, is 9"
    ]


def test_no_key_and_no_password_is_noted(tmp_path: Path) -> None:
    options = {
        "api_key": "sk-abcdefgh",
        "user_base_url": "http://h:1/v1",
        "auth": {"token": "T0"},
    }
    study = study_at(tmp_path, targets={"options": options})
    note_settings(study, "trajectories", "embedded")
    text = " ".join(row.value for row in study.store.read(MadeWith))
    assert not {"sk-abcdefgh", "T0"} & set(text.replace('"', " ").split())
    assert "sk-" not in text and "http://h:1/v1" in text
    other = study_at(tmp_path, targets={"options": {**options, "api_key": "sk-other"}})
    (one,) = differences(other, "trajectories", "embedded") or []
    assert one.setting == "targets.options.api_key" and "sk-" not in str(one)


def _adapter(name: str) -> Adapter:
    rates = {f"validation_{side}{end}": 0.5 for side in ("before", "after") for end in ("", "_low", "_high")}
    return Adapter(
        adapter_id="a",
        name=name,
        kind="mixed" if name == "mixed" else "capability",
        capability_id=None if name == "mixed" else name,
        environment_id=None if name == "mixed" else "e",
        base_id="b",
        path="models/adapters/x",
        iterations=1,
        best_iteration=1,
        rollouts=2816,
        validation_n=9,
        **rates,
    )


@pytest.mark.parametrize(
    ("asset", "partition", "changed", "same", "causes"),
    [
        ("adapter", "c", {"training": {"iterations": 3}}, {"training": {"pilot": "off"}}, INPUT),
        ("mixed_adapter", "", {"training": {"seed": 3}}, {"training": {"processes": 2}}, INPUT),
        ("evaluation", "", {"evaluation": {"seed": 3}}, {"evaluation": {"resamples": 500}}, None),
        ("evaluation", "", {"evaluation": {"trials": 3}}, {"evaluation": {"trials": 6}}, None),
        ("evaluation", "", {"evaluation": {"temperature": 0.0}}, {"routing": {"seed": 3}}, None),
        ("adapter_validation", "", {"evaluation": {"engine": "vllm"}}, {"selection": {"min_gap": 0.3}}, None),
        ("environment_audit", "c", {"sandbox": {"memory_mb": 512}}, {"sandbox": {"backend": "docker"}}, CODE),
        (
            "environment_audit",
            "c",
            {"rollouts": {"temperature": 0.0}},
            {"rollouts": {"concurrency": 2}},
            CODE,
        ),
        ("labels", "b", {"labels": {"model": "other"}}, {"labels": {"model": "m", "passes": 3}}, CODE),
        ("labels", "b", {"labels": {"model": "m", "temperature": 1.0}}, {"labels": {"model": "m"}}, CODE),
        ("labels", "b", {}, {"labels": {"model": "m"}}, CODE),
        ("capability_dictionary", "", {"discovery": {"seed": 3}}, {"labels": {"passes": 3}}, CODE),
        ("triage", "b", {"triage": {"model": ""}}, {"triage": {"model": "m"}}, CODE),
        ("environment", "c", {"synthesis": {"seed": 3}}, {"training": {"seed": 3}}, INPUT),
    ],
)
def test_trained_evaluated_and_paid_work_is_lost_to_what_decides_it(
    tmp_path: Path,
    asset: str,
    partition: str,
    changed: dict[str, Any],
    same: dict[str, Any],
    causes: dict[str, Cause] | None,
) -> None:
    paid = {"labels": {"model": "m"}, "triage": {"model": "m"}}
    first = study_at(tmp_path, **(paid if asset in paid else {}))
    assert finished_work(first, asset, partition) == ""
    _fill(first.store)
    note_settings(first, asset, partition)
    assert finished_work(first, asset, partition)
    assert would_replace(first, asset, partition) == ""
    assert would_replace(study_at(tmp_path, **changed), asset, partition)
    assert would_replace(study_at(tmp_path, **same), asset, partition) == ""
    if causes is not None:
        assert would_replace(first, asset, partition, causes) == next(iter(causes))
    else:  # its episodes are kept by what decides them, and only read
        assert would_replace(first, asset, partition, CODE | INPUT) == ""


def _fill(store: Any) -> None:
    store.write([_adapter("c")], Adapter, "c")
    store.write([_adapter("mixed")], Adapter, "mixed")
    store.write([Lesson(capability_id="c")], Lesson)
    for split in ("validation", "test"):
        row = Evaluation(
            task_id="t", trial=0, arm="base", adapter=None, success=True, reward=1.0, fault=None, skill="",
            split=split,
        )  # fmt: skip
        store.write([row], Evaluation, split)
    seen = SeedOutcome(
        capability_id="c", environment_id="e", seed=1, n=8, passed=0, pass_rewards=(), fail_rewards=()
    )
    store.write([seen], SeedOutcome, "c")
    written = Environment(
        environment_id="e", capability_id="c", target="embedded", writer="model:m", source="x"
    )
    store.write([written], Environment, "c")
    label = Label(trajectory_id="t", capability_id="c", label="NA", labeller="model:m", labelling_pass=1)
    store.write([label], Label, "b")
    store.write([Proposal(target="x", analyst="a", proposal_id="p1-1", discovery_pass=1, name="n",
                          description="d")], Proposal)  # fmt: skip
