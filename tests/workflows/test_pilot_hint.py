"""The pilot with words before it: when both are negative no run is made, and what words showed is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trace_assets.assets import pilot
from trace_assets.assets.environment_audit import write_verdict
from trace_assets.assets.pilot import read_pilot, write_pilot
from trace_assets.records import BaseCheckpoint, CapabilitySpec, Environment, EnvironmentCheck, Pilot
from trace_assets.settings import load_settings
from trace_assets.store import Home
from trace_assets.study import Study
from trace_assets.training import hint_gate
from trace_assets.training.hint_gate import Hinted
from trace_assets.training.pilot import Piloted

NAME = "embedded-multi"
NOTHING = Hinted((0.0,) * 40, (0.0,) * 40, (1.0,) * 20, (1.0,) * 20, rollouts=528)
RESCUED = Hinted((0.5, 1.0) * 20, (0.0,) * 40, (1.0,) * 20, (1.0,) * 20, rollouts=528)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Pilots whose reward rises and whose target does not; what words are tried with."""
    asked: list[dict[str, Any]] = []
    rewards = np.array([[0.2] * 40, [0.9] * 40])
    measured = Piloted(rewards, rewards, np.zeros((2, 40)), 1, (0, 48), "needed", 1.0)
    monkeypatch.setattr(pilot, "_measured", lambda study, name: (measured, True))
    monkeypatch.setattr(pilot, "base_folder", lambda study: Path("base"))
    monkeypatch.setattr(pilot, "_left_out", lambda study, name: ("", True))
    return asked


def piloted(
    home: Path, monkeypatch: pytest.MonkeyPatch, asked: list[dict[str, Any]], found: Hinted, *settings: str
) -> tuple[Pilot, dict[Any, float]]:
    def run(**arguments: Any) -> Hinted:
        asked.append(arguments)
        return found

    monkeypatch.setattr(hint_gate, "run_hint_gate", run)
    study = Study(
        Home.open(home),
        load_settings(None, ["training.pilot_hint=true", "targets.options.hints=true", *settings]),
    )
    spec = CapabilitySpec(
        capability_id=NAME,
        target="embedded",
        name="Go on",
        description="Deal with every order.",
        detector="object_untouched",
        detector_args={"argument": "order", "pattern": "[A-Z][0-9]{2}"},
    )
    study.store.write([spec], CapabilitySpec, NAME)
    environment = Environment(
        environment_id="env", capability_id=NAME, target="embedded", writer="w", source="x = 1"
    )
    study.store.write([environment], Environment, NAME)
    study.store.write([], EnvironmentCheck, NAME)
    base = BaseCheckpoint(
        base_id="b", path="b", parameters=1, steps=1, pass_rate=None, pass_rate_low=None,
        pass_rate_high=None, n=0,
    )  # fmt: skip
    study.store.write([base], BaseCheckpoint)
    write_verdict(study, NAME)
    result = write_pilot(study, NAME)
    row = read_pilot(study, NAME)
    assert row is not None
    return row, dict(result.spent)


def test_two_negatives_stop_a_run_that_either_would_only_warn_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, played: list[dict[str, Any]]
) -> None:
    row, spent = piloted(tmp_path, monkeypatch, played, NOTHING, "training.pilot='warn'")
    assert (row.outcome, row.hint_verdict, row.goes_on) == ("stopped", "neither", False)
    assert row.n_hint_tasks == 40 and row.hint_gain == 0 and row.n_hint_control == 20
    assert spent == {("rollouts", "episodes"): 48.0 + 528.0}
    assert played[0]["words"].hint == "Do both." and played[0]["words"].place == "user"


def test_one_negative_only_warns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, played: list[dict[str, Any]]
) -> None:
    row, _ = piloted(tmp_path, monkeypatch, played, RESCUED, "training.pilot='warn'")
    assert (row.outcome, row.hint_verdict, row.goes_on) == ("stopped", "teach", True)
    assert row.hint_gain == 0.75 and "40 tasks" in row.hint_reason


def test_what_was_played_is_not_played_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, played: list[dict[str, Any]]
) -> None:
    first, _ = piloted(tmp_path, monkeypatch, played, RESCUED)
    again, spent = piloted(tmp_path, monkeypatch, played, NOTHING, "training.pilot_min_transfer=0.5")
    assert len(played) == 1 and again.hint_gain == first.hint_gain
    assert spent == {("rollouts", "episodes"): 48.0}
    piloted(tmp_path, monkeypatch, played, NOTHING, "training.pilot_search=100")
    assert len(played) == 2, "other tasks are another comparison"


def test_an_agent_that_was_shown_no_advice_is_told_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, played: list[dict[str, Any]]
) -> None:
    row, _ = piloted(tmp_path, monkeypatch, played, RESCUED, "targets.options.hints=false")
    assert not played and row.hint_verdict == "undecided" and "shown no advice" in row.hint_reason


def test_without_the_setting_nothing_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, played: list[dict[str, Any]]
) -> None:
    row, _ = piloted(tmp_path, monkeypatch, played, RESCUED, "training.pilot_hint=false")
    assert not played and row.hint_verdict == "" and row.hint_gain is None


@pytest.mark.parametrize(
    ("last", "target", "stalls"),
    [(0.2, 0.5, True), (0.9, 0.5, False), (0.2, 0.9, False), (0.2, 0.1, False), (0.0, 0.5, False)],
)
def test_a_pilot_that_moves_nothing_is_noted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    played: list[dict[str, Any]],
    last: float,
    target: float,
    stalls: bool,
) -> None:
    """Where the target has risen GRPO learns by itself, however short the pilot leaves the reward; where
    either has fallen it was moved as well."""
    rewards = np.array([[0.2] * 40, [last] * 40])
    followed = np.array([[0.5] * 40, [target] * 40])
    measured = Piloted(rewards, rewards, followed, 1, (0, 48), "needed", 1.0)
    monkeypatch.setattr(pilot, "_measured", lambda study, name: (measured, True))
    row, _ = piloted(tmp_path, monkeypatch, played, RESCUED)
    assert row.stalls is stalls
