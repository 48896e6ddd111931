"""A run that was finished is read from its folder; a sandboxed one tells what its sandbox took."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from trace_assets.records import Adapter, BaseCheckpoint, Lesson, TrainingPoint
from trace_assets.settings import Settings
from trace_assets.store import Home, folder_version
from trace_assets.study import Study

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from trace_assets.assets import adapter as stage  # noqa: E402
from trace_assets.sandbox import SandboxConfig, open_pool  # noqa: E402
from trace_assets.targets.sandboxed import SandboxedTarget  # noqa: E402
from trace_assets.targets.seeds import SeedPermutation  # noqa: E402
from trace_assets.training.checkpoints import sandbox_shares  # noqa: E402

pytestmark = pytest.mark.train


@pytest.fixture(scope="module")
def home(words: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the word model as its base."""
    folder = tmp_path_factory.mktemp("home")
    words.write_base(folder / "models" / "base")
    base = BaseCheckpoint(
        base_id=folder_version(folder / "models" / "base"), path="models/base", parameters=1, steps=1,
        pass_rate=None, pass_rate_low=None, pass_rate_high=None, n=0,
    )  # fmt: skip
    Study(Home.open(folder)).store.write([base], BaseCheckpoint)
    return folder


def study_at(home: Path, words: ModuleType, **changes: Any) -> Study:
    section = words.SECTION.model_copy(update={"iterations": 2, "validate_every": 2, **changes})
    study = Study(Home.open(home), Settings(training=section))
    study.__dict__["target"] = words.WordTarget()
    return study


@pytest.mark.ci
def test_a_mixed_adapter_of_an_earlier_curriculum_is_taken_from_its_folder(
    home: Path, words: ModuleType
) -> None:
    study = study_at(home, words)

    def train(taught: int) -> tuple[Adapter, list[int], dict[Any, float]]:
        study.store.write([Lesson(capability_id=f"c{n}") for n in range(taught)], Lesson)
        told: list[int] = []
        result = stage.train_mixed(study, lambda point: told.append(point.iteration))
        assert result.figures.get("reused", False) is not bool(told)
        return study.store.read(Adapter, "mixed")[0], told, dict(result.spent)

    two, told, spent = train(2)
    assert (two.iterations, told, spent) == (4, [1, 2, 3, 4], {("rollouts", "episodes"): 160.0})
    one, told, _ = train(1)
    assert (one.iterations, told) == (2, [1, 2])
    again, told, spent = train(2)
    assert (told, spent) == ([], {("rollouts", "episodes"): 0.0})
    assert again == two
    assert [point.iteration for point in study.store.read(TrainingPoint, "mixed")] == [1, 2, 3, 4]


def test_settings_of_the_gate_are_no_part_of_an_adapter(home: Path, words: ModuleType) -> None:
    kept = study_at(home, words)
    kept.store.write([Lesson(capability_id="c0")], Lesson)
    stage.train_mixed(kept)
    gated = study_at(home, words, pilot="off", accept_rejected={"c0": "to see it"}, wanted_signal=0.9)
    assert stage.train_mixed(gated).figures["reused"]


def test_the_share_of_the_sandbox_is_recorded(home: Path, words: ModuleType, tmp_path: Path) -> None:
    """The bound is generous: here the sandbox is a plain process, and the model 20 times the desk agent's
    speed; docs/learnability.md has the figures of the real thing."""
    with (
        pytest.warns(UserWarning, match="isolates nothing"),
        open_pool(SandboxConfig(backend="unsafe-subprocess", deadline_seconds=300)) as pool,
    ):
        target = SandboxedTarget(
            words.environment(),
            pool,
            SeedPermutation.draw(),
            training_seeds=range(20),
            validation_seeds=range(100, 150),
        )
        _, points = words.train(
            home / "models" / "base",
            tmp_path / "words",
            environment_id="e",
            target=target,
            section=words.SECTION.model_copy(update={"iterations": 4}),
        )
        target.close()
    wall, cpu = sandbox_shares(points)
    assert wall is not None and cpu is not None
    assert 0 < cpu <= wall < 0.5
    assert all(point.sandbox_seconds for point in points)


def test_a_target_without_a_sandbox_has_no_share(home: Path, words: ModuleType, tmp_path: Path) -> None:
    _, points = words.train(
        home / "models" / "base",
        tmp_path / "words",
        kind="mixed",
        capability_id=None,
        section=words.SECTION.model_copy(update={"iterations": 1}),
    )
    assert sandbox_shares(points) == (None, None)
    assert points[0].sandbox_seconds is None
