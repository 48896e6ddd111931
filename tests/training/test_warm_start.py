"""Demonstrations before GRPO: of words that are never said GRPO alone learns nothing."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from trace_assets.errors import InputError
from trace_assets.records import Adapter, Message, Task, TrainingPoint

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

pytestmark = pytest.mark.train


@pytest.fixture(scope="module")
def target(words: ModuleType) -> Any:
    return words.Taught()


def section(words: ModuleType, **changes: Any) -> Any:
    return words.SECTION.model_copy(update={"iterations": 12, "save_every": 1, **changes})


@pytest.fixture(scope="module")
def warm(
    words: ModuleType, base: Path, target: Any, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Adapter, list[TrainingPoint]]:
    folder = tmp_path_factory.mktemp("warm") / "words"
    done: tuple[Adapter, list[TrainingPoint]] = words.train(
        base, folder, target=target, section=section(words), warm_start=True
    )
    return done


def test_what_never_succeeds_is_demonstrated_and_learned(
    warm: tuple[Adapter, list[TrainingPoint]], words: ModuleType, base: Path, target: Any, tmp_path: Path
) -> None:
    adapter, _ = warm
    assert set(words.NEVER) <= set(target.asked), "a word that is never said was not demonstrated"
    assert adapter.demonstrations >= len(words.NEVER)
    cold, _ = words.train(base, tmp_path / "cold", target=target, section=section(words))
    assert cold.demonstrations == cold.warm_rollouts == 0
    assert cold.validation_after <= 0.6 + 1e-9, "three words of five are all that GRPO alone can reach"
    assert adapter.validation_after > 0.65, "more than the three words that GRPO alone can reach"


def test_what_it_takes_comes_out_of_the_runs_own_rollouts(warm: tuple[Adapter, list[TrainingPoint]]) -> None:
    adapter, points = warm
    assert adapter.warm_rollouts == 5 * 2 + adapter.demonstrations
    assert adapter.rollouts == adapter.warm_rollouts + 40 * len(points) <= 12 * 40
    assert len(points) == 12 - -(-adapter.warm_rollouts // 40)


@pytest.mark.ci
@pytest.mark.parametrize("at", [1, 3])
def test_interrupted_it_ends_the_same(
    warm: tuple[Adapter, list[TrainingPoint]],
    words: ModuleType,
    base: Path,
    target: Any,
    tmp_path: Path,
    at: int,
) -> None:
    """Before the first checkpoint the weights of the demonstrations are read, later those of GRPO."""

    def stop(point: TrainingPoint) -> None:
        if point.iteration == at:
            raise KeyboardInterrupt

    made = {"target": target, "section": section(words), "warm_start": True}
    with pytest.raises(KeyboardInterrupt):
        words.train(base, tmp_path / "words", on_point=stop, **made)
    target.asked.clear()
    adapter, points = words.train(base, tmp_path / "words", **made)
    assert target.asked == [], "what was demonstrated was demonstrated again"
    assert (adapter.adapter_id, adapter.rollouts) == (warm[0].adapter_id, warm[0].rollouts)
    assert [point.success_rate for point in points] == [point.success_rate for point in warm[1]]


def test_a_run_with_demonstrations_is_not_taken_for_one_without(
    words: ModuleType, base: Path, target: Any, tmp_path: Path
) -> None:
    from trace_assets.training.grpo import RECORD, finished_run

    short = section(words, iterations=2)
    adapter, _ = words.train(base, tmp_path / "words", target=target, section=short, warm_start=True)
    assert (tmp_path / "words" / RECORD).is_file()
    told = {"name": "words", "base": "base"}
    assert finished_run(tmp_path / "words", told | {"warm_start": True}) == adapter


def test_a_target_without_an_oracle_is_refused(words: ModuleType, base: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no oracle to demonstrate with; set training.warm_start"):
        words.train(base, tmp_path / "words", warm_start=True)


def test_where_all_sometimes_succeeds_nothing_is_demonstrated(
    words: ModuleType, base: Path, target: Any, tmp_path: Path
) -> None:
    class Solved(words.WordTarget):  # type: ignore[misc, name-defined]
        def episode(self, task: Task, *, seed: int) -> Any:
            episode = super().episode(task, seed=seed)
            verdict = episode.verdict

            async def passed() -> Any:
                return (await verdict()).model_copy(update={"success": True})

            episode.verdict = passed
            return episode

        def oracle(self, task: Task) -> list[Message]:
            raise AssertionError("nothing was to be demonstrated")

    short = section(words, iterations=2)
    adapter, _ = words.train(base, tmp_path / "words", target=Solved(), section=short, warm_start=True)
    assert (adapter.demonstrations, adapter.warm_rollouts) == (0, 10)
