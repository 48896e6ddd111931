"""Experiment trackers: TRL's own are handed on, a missing one is refused before anything is played."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

import pytest
from pydantic import ValidationError

from trace_assets.errors import Unavailable
from trace_assets.settings import Training
from trace_assets.training import grpo
from trace_assets.training.grpo import TENSORBOARD, require_trackers, tracked


def test_no_tracker_is_asked_for_as_it_comes_and_none_decides_a_result() -> None:
    assert Training().report_to == ()
    assert Training(report_to=("wandb",)).fingerprint() == Training().fingerprint()
    assert Training(report_to=("wandb",)).recipe() == Training().recipe()
    with pytest.raises(ValidationError):
        Training.model_validate({"report_to": ["excel"]})


def test_a_tracker_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpo, "find_spec", lambda name: None if name == "trackio" else object())
    require_trackers(Training(report_to=("mlflow",)))
    with pytest.raises(Unavailable, match=r"report_to names trackio, .*pip install trackio"):
        require_trackers(Training(report_to=("mlflow", "trackio")))


def test_the_users_own_folder_for_tensorboard_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(TENSORBOARD, raising=False)
    monkeypatch.chdir(tmp_path)
    with tracked(Training(report_to=("tensorboard",)), "a"):
        assert os.environ[TENSORBOARD] == str(tmp_path / "runs" / "a")
    assert TENSORBOARD not in os.environ
    with tracked(Training(), "a"):
        assert TENSORBOARD not in os.environ
    monkeypatch.setenv(TENSORBOARD, "mine")
    with tracked(Training(report_to=("tensorboard",)), "a"):
        assert os.environ[TENSORBOARD] == "mine"


@pytest.mark.train
def test_nothing_is_played_for_want_of_a_tracker(
    words: ModuleType, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("trl")
    monkeypatch.setattr(grpo, "find_spec", lambda name: None)
    with pytest.raises(Unavailable, match="wandb"):
        words.train(
            base, tmp_path / "adapter", section=words.SECTION.model_copy(update={"report_to": ("wandb",)})
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.train
def test_tensorboard_holds_the_rewards_of_every_iteration(
    words: ModuleType, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("trl")
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.delenv(TENSORBOARD, raising=False)
    monkeypatch.chdir(tmp_path)
    section = words.SECTION.model_copy(update={"report_to": ("tensorboard",), "iterations": 2})
    adapter, points = words.train(base, tmp_path / "adapter", section=section)
    (written,) = (tmp_path / "runs").rglob("events.*")
    assert written.parent == tmp_path / "runs" / adapter.name
    events = EventAccumulator(str(written.parent))
    events.Reload()
    rewards = [(one.step, one.value) for one in events.Scalars("train/reward")]
    assert rewards == [(point.iteration, pytest.approx(point.reward_mean)) for point in points]
