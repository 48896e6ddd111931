"""A real model's answers on record: they are what they say, and the diagnosis can be replayed from them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.truth.hundred import recorded_calls
from tests.truth.readings import missing_data, read_readings
from tests.truth.recorded import MODEL, RECORDING, RUNS, figures, outcomes, replay, section
from trace_assets.diagnosis.llm.recording import Recording
from trace_assets.records import Consensus, Label


def test_the_recording_says_what_it_is() -> None:
    rows = [json.loads(line) for line in RECORDING.read_text("utf-8").splitlines()]
    assert "strong general model" in rows[0]["answered_by"]
    kinds = Counter(row["kind"] for row in rows[1:])
    assert kinds["label"] >= 4 * RUNS and min(kinds[one] for one in ("triage", "discover", "cause")) >= 4
    assert {row["model"] for row in rows[1:]} == {MODEL}
    assert len(Recording(RECORDING)) == len(rows) - 1


def test_the_page_says_what_is_on_record() -> None:
    page = (Path(__file__).parents[2] / "docs" / "analyst.md").read_text("utf-8")
    titles = {"discovery": "discovery and merging", "lack_causes": "causes"}
    for stage, own in recorded_calls().items():
        line = f"| {titles.get(stage, stage)} | {own['calls']}, {round(own['prompt'] / 1000)} |"
        assert line in page


@pytest.mark.slow
@pytest.mark.skipif(bool(missing_data()), reason=missing_data() or "there is data")
def test_the_diagnosis_is_replayed_without_a_key_and_scored(tmp_path: Path) -> None:
    study = replay(tmp_path / "study")
    assert len({row.trajectory_id for row in study.store.read(Label)}) == 2 * RUNS
    assert study.store.read(Consensus)
    recorded = outcomes(study)
    runs = [one for outcome in recorded.model for one in outcome.diagnosed.trajectories]
    readings = read_readings(runs)
    by_model, by_rules = figures(recorded.model, readings), figures(recorded.detectors, readings)
    assert by_model["party right"].n == by_rules["party right"].n >= 10
    # What the recording is for: a model that has read a run names what sank it more often than the rules do.
    assert by_model["capability sank the run"].hits >= by_rules["capability sank the run"].hits
    assert "| both |" in section(recorded, readings)
