"""A pilot sees whether a reward leads where the target is: one that does goes on, a decoy is stopped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from trace_assets.environments.learnability import Decision, decide
from trace_assets.records import Task, Trajectory
from trace_assets.settings import Training
from trace_assets.stats.paired import correlation, gain

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from trace_assets.training.pilot import Piloted, pilot_section, run_pilot  # noqa: E402

pytestmark = pytest.mark.train


@pytest.fixture(scope="module")
def section(words: ModuleType) -> Training:
    changes = {"iterations": 24, "pilot_share": 0.25, "pilot_steps": 6, "pilot_rate": 0.5, "pilot_tasks": 60}
    chosen: Training = words.SECTION.model_copy(update=changes)
    return chosen


def live(words: ModuleType) -> Any:
    """The target: wants back the word that it says, on sixty tasks."""

    class Live(words.WordTarget):  # type: ignore[misc, name-defined]
        def tasks(self, split: str) -> Sequence[Task]:
            one: Task = super().tasks("discovery")[0]
            assert split == "discovery", "a pilot plays no other split of the target"
            return [
                one.model_copy(update={"task_id": f"words/live-{n}", "payload": {"word": words.WORDS[n % 5]}})
                for n in range(60)
            ]

    return Live()


def decoy(words: ModuleType) -> Any:
    """An environment that pays for saying `red` whatever was asked."""

    class Episode(words.WordEpisode):  # type: ignore[misc, name-defined]
        async def verdict(self) -> Any:
            self.word = "red"
            return await super().verdict()

    class Decoy(words.WordTarget):  # type: ignore[misc, name-defined]
        def episode(self, task: Task, *, seed: int) -> Any:
            return Episode(task.payload["word"], False)

    return Decoy()


def asked(episode: Trajectory) -> str:
    return (episode.messages[0].content or "").removeprefix("say ")


def judged(measured: Piloted, needed: bool = True) -> Decision:
    rose = gain(measured.rewards[-1] - measured.rewards[0])
    followed = gain(measured.target[-1] - measured.target[0])
    return decide(rose, followed, 0.25, needed=needed)


def test_a_sound_environment_goes_on(
    words: ModuleType, base: Path, section: Training, tmp_path: Path
) -> None:
    measured = run_pilot(
        name="words",
        target=words.WordTarget(),
        live=live(words),
        needs=None,
        base_dir=base,
        section=section,
        folder=tmp_path / "work",
    )
    assert not (tmp_path / "work").exists()
    assert measured.rollouts == (0, 40, 80, 120, 160, 200, 240) and measured.tasks_are == "all"
    assert measured.rewards.shape == measured.successes.shape == (7, 50)
    assert measured.target.shape == (7, 60) and measured.trials == 1
    assert judged(measured).outcome == "transfers"
    together = correlation(measured.rewards, measured.target)
    assert together.value is not None and together.value > 0.8


def test_a_decoy_is_stopped(words: ModuleType, base: Path, section: Training, tmp_path: Path) -> None:
    measured = run_pilot(
        name="decoy",
        target=decoy(words),
        live=live(words),
        needs=lambda episode: asked(episode) != "red",
        base_dir=base,
        section=section,
        folder=tmp_path / "work",
    )
    assert measured.tasks_are == "needed"
    assert measured.rewards[-1].mean() > measured.rewards[0].mean() + 0.2
    decision = judged(measured)
    assert decision.outcome == "stopped", decision.reason


@pytest.mark.ci
def test_few_tasks_are_played_several_times_and_none_says_nothing(
    words: ModuleType, base: Path, section: Training, tmp_path: Path
) -> None:
    def few(needs: Any) -> Piloted:
        return run_pilot(
            name="words",
            target=words.WordTarget(),
            live=live(words),
            needs=needs,
            base_dir=base,
            section=section.model_copy(update={"pilot_steps": 2}),
            folder=tmp_path / "work",
        )

    measured = few(lambda episode: asked(episode) == "blue")
    assert measured.target.shape == (3, 12) and measured.trials == 4
    none = few(lambda episode: False)
    assert none.target.shape == (3, 0) and none.trials == 0


def test_the_share_of_the_budget_is_kept() -> None:
    section = Training()
    pilot = pilot_section(section)
    whole = section.iterations * section.tasks_per_iteration * section.group_size
    spent = pilot.iterations * pilot.tasks_per_iteration * pilot.group_size
    assert 0.01 <= spent / whole <= 0.02
    assert (pilot.warmup_iterations, pilot.learning_rate) == (0, 2 * section.learning_rate)
    big = pilot_section(Training(iterations=40, group_size=16, micro_batch=2))
    assert big.tasks_per_iteration * big.group_size % big.micro_batch == 0


def test_a_small_run_still_gets_a_group_a_step() -> None:
    pilot = pilot_section(Training(iterations=4, tasks_per_iteration=4, group_size=4))
    assert (pilot.iterations, pilot.tasks_per_iteration) == (3, 1)


@pytest.mark.ci
def test_broken_episodes_are_left_out_of_every_checkpoint(
    words: ModuleType, base: Path, section: Training, tmp_path: Path
) -> None:
    def breaks(task: Task, seed: int) -> bool:
        return bool(task.payload["word"] == "red")

    measured = run_pilot(
        name="words",
        target=words.WordTarget(breaks),
        live=live(words),
        needs=None,
        base_dir=base,
        section=section.model_copy(update={"pilot_steps": 2}),
        folder=tmp_path / "work",
    )
    assert measured.rewards.shape == (3, 40)
    assert not np.isnan(measured.rewards).any()
