"""The diagnosis of a small study through its stages: agreement, halves, stability and policies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trace_assets.assets.contrast import compare_policies, contrast_policies, estimate_contrast
from trace_assets.assets.selected_capabilities import estimate_stability, select_capabilities
from trace_assets.assets.triage import triage_batch
from trace_assets.cli.main import app
from trace_assets.errors import InputError
from trace_assets.records import (
    Agreement,
    Capability,
    Consensus,
    Contrast,
    Label,
    Message,
    PolicyContrast,
    Stability,
    Trajectory,
)
from trace_assets.settings import load_settings
from trace_assets.store import Home
from trace_assets.store.trajectories import write_trajectories
from trace_assets.study import Study

TASKS = 40


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """Two policies on the same tasks; the weak one lacks in half of them what costs it the task."""
    overrides = ["stability.resamples=10", "stability.shuffles=10", "contrast.resamples=200"]
    made = Study(Home.open(tmp_path), load_settings(None, overrides))
    trajectories, labels = [], []
    for policy in ("weak", "strong"):
        for task in range(TASKS):
            lacks = policy == "weak" and task % 2 == 0
            failed = lacks or task % 10 == 1
            name = f"{policy}-{task}"
            trajectories.append(
                Trajectory(
                    trajectory_id=name,
                    task_id=f"t/{task}",
                    target="t",
                    task_batch="b",
                    policy=policy,
                    success=not failed,
                    reward=0.0 if failed else 1.0,
                    stop="completed",
                    n_messages=2,
                    messages=(
                        Message(role="user", content="Cancel it."),
                        Message(role="assistant", content="Done."),
                    ),
                )
            )
            labels += [
                Label(
                    trajectory_id=name,
                    capability_id="c",
                    labelling_pass=turn,
                    labeller="model:m",
                    label="LACKING" if lacks else "PRESENT",
                )
                for turn in (1, 2)
            ]
    write_trajectories(made.store, trajectories, "b")
    triage_batch(made, "b")
    capability = Capability(capability_id="c", target="t", name="C", description="c", analyst="model:m")
    made.store.write([capability], Capability)
    made.store.write(labels, Label, "b")
    return made


def test_contrast_writes_agreement_and_consensus(study: Study) -> None:
    estimate_contrast(study)
    (row,) = study.store.read(Contrast)
    assert row.alpha == 1.0 and row.gap is not None and row.gap > 0.5
    assert [one.between for one in study.store.read(Agreement)] == ["all", "passes"]
    assert len(study.store.read(Consensus)) == 2 * TASKS


def test_candidates_of_one_half_are_tested_on_the_other(study: Study) -> None:
    (capability,) = study.store.read(Capability)
    study.store.write([capability.model_copy(update={"discovered_on": "half"})], Capability)
    estimate_contrast(study)
    (row,) = study.store.read(Contrast)
    assert 10 < row.n_tasks < 30
    select_capabilities(study)


def test_stability_and_its_page(study: Study) -> None:
    estimate_contrast(study)
    select_capabilities(study)
    result = estimate_stability(study)
    (row,) = study.store.read(Stability)
    assert (row.n_resamples, row.n_shuffles, row.rediscovers) == (10, 10, False)
    assert row.kept >= 0.9 and result.figures["kept_again_least"] == row.kept
    assert "| C (t) | yes |" in result.pages["stability"]


def test_policies_are_compared(study: Study) -> None:
    contrast_policies(study)
    failures, row = study.store.read(PolicyContrast)
    assert (failures.weak, failures.strong, failures.n_tasks) == ("weak", "strong", TASKS)
    assert (row.n_mended, row.n_broken, row.weak_rate, row.strong_rate) == (20, 0, 0.5, 0.0)
    assert compare_policies(study, ("strong", "weak")) == [failures, row]
    with pytest.raises(InputError, match="There are strong, weak"):
        compare_policies(study, ("weak", "medium"))
    with pytest.raises(InputError, match="cannot be compared with itself"):
        compare_policies(study, ("weak", "weak"))


def test_the_command_compares(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACE_HOME", str(study.home.path))
    run = CliRunner().invoke(app, ["compare", "weak", "strong", "--json"], catch_exceptions=False)
    assert [row["capability_id"] for row in json.loads(run.stdout)] == ["", "c"]
    table = CliRunner().invoke(app, ["compare"], catch_exceptions=False).stdout
    assert "weak (weak) against strong (strong)" in table and "20 gained" in table
    with pytest.raises(InputError, match="name two policies or none"):
        CliRunner().invoke(app, ["compare", "weak"], catch_exceptions=False)


def test_the_command_plans() -> None:
    run = CliRunner().invoke(app, ["plan", "--gap", "0.4", "--json", "--tasks", "50"], catch_exceptions=False)
    document = json.loads(run.stdout)
    tasks = [row["tasks"] for row in document["needed"]]
    assert tasks == sorted(tasks) and document["trials"] == 4 and 0 < document["power"] < 1
    shown = CliRunner().invoke(app, ["plan", "--gap", "0.2"], catch_exceptions=False).stdout
    assert "no number" in shown and "does not lie above the threshold" in shown
    gain = CliRunner().invoke(app, ["plan", "--gain", "0.07", "--pass-rate", "0.4"], catch_exceptions=False)
    assert "gain of 7.0 points" in gain.stdout


@pytest.mark.parametrize("options", [["--gap", "0.3", "--gain", "0.1"], ["--gap", "2"]])
def test_plans_that_cannot_be_are_refused(options: list[str]) -> None:
    with pytest.raises(InputError):
        CliRunner().invoke(app, ["plan", *options], catch_exceptions=False)
