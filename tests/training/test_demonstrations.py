"""One episode of the oracle in every group of which none succeeds: what is never said is said after it."""

from __future__ import annotations

import math
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from trace_assets.errors import InputError
from trace_assets.records import Adapter, Task, TrainingPoint
from trace_assets.settings import Training
from trace_assets.training.episodes import Player, Row

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

pytestmark = pytest.mark.train


def section(words: ModuleType, **changes: Any) -> Training:
    section: Training = words.SECTION
    return section.model_copy(update={"demonstrate": True, "iterations": 24, "save_every": 1, **changes})


@pytest.fixture(scope="module")
def made(
    words: ModuleType, base: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Adapter, list[TrainingPoint]]:
    folder = tmp_path_factory.mktemp("shown") / "words"
    done: tuple[Adapter, list[TrainingPoint]] = words.train(
        base, folder, target=words.Taught(), section=section(words)
    )
    return done


def test_what_never_succeeds_is_shown_and_learned(
    made: tuple[Adapter, list[TrainingPoint]], words: ModuleType
) -> None:
    """What GRPO alone reaches of this target is shown in `test_warm_start.py`."""
    adapter, points = made
    assert adapter.validation_after > 0.65, "more than the three words that GRPO alone can reach"
    assert points[0].demonstrations >= len(words.NEVER)
    assert points[-1].demonstrations < points[0].demonstrations, "what is done by itself is shown no more"


def test_what_is_shown_comes_out_of_the_runs_own_rollouts(made: tuple[Adapter, list[TrainingPoint]]) -> None:
    adapter, points = made
    assert adapter.demonstrations == sum(point.demonstrations for point in points) > 0
    assert [point.rollouts for point in points] == [40 + point.demonstrations for point in points]
    assert adapter.rollouts == sum(point.rollouts or 0 for point in points) <= 24 * 40
    assert len(points) < 24


@pytest.mark.ci
def test_interrupted_it_ends_the_same(
    made: tuple[Adapter, list[TrainingPoint]], words: ModuleType, base: Path, tmp_path: Path
) -> None:
    def stop(point: TrainingPoint) -> None:
        if point.iteration == 3:
            raise KeyboardInterrupt

    arguments = {"target": words.Taught(), "section": section(words)}
    with pytest.raises(KeyboardInterrupt):
        words.train(base, tmp_path / "words", on_point=stop, **arguments)
    adapter, points = words.train(base, tmp_path / "words", **arguments)
    assert (adapter.adapter_id, adapter.demonstrations) == (made[0].adapter_id, made[0].demonstrations)
    assert [point.success_rate for point in points] == [point.success_rate for point in made[1]]


@pytest.mark.ci
def test_where_all_sometimes_succeeds_nobody_is_asked(words: ModuleType, base: Path, tmp_path: Path) -> None:
    target = words.Taught()
    target.episode = words.WordTarget().episode  # wants the word that is asked for, which is often said
    adapter, points = words.train(
        base, tmp_path / "words", target=target, section=section(words, iterations=2, group_size=64)
    )
    assert (target.asked, adapter.demonstrations, len(points)) == ([], 0, 2)


def test_a_target_without_an_oracle_is_refused(words: ModuleType, base: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"words has no oracle .* training.demonstrate = false"):
        words.train(base, tmp_path / "words", section=section(words))


def rows(*success: bool | None) -> list[Row]:
    return [Row([1], [2], [-0.5], [1], None if one is None else float(one), one) for one in success]


@pytest.fixture
def groups(words: ModuleType) -> tuple[list[Task], list[Row]]:
    """Four groups of two: hopeless, half solved, not judged at all, hopeless as far as it was judged."""
    tasks = [task for task in words.WordTarget().tasks("discovery")[:4] for _ in range(2)]
    return tasks, rows(False, False, True, False, None, None, None, False)


class Nobody:
    """A policy that must not act: only the oracle plays."""

    name, version = "nobody", "1"

    async def act(self, conversation: Any) -> Any:
        raise AssertionError("only the oracle was to play")


def completed(
    words: ModuleType, base: Path, target: Any, groups: tuple[list[Task], list[Row]]
) -> tuple[list[Row], int]:
    from trace_assets.training.demonstrations import Demonstrations

    tasks, played = groups
    nobody: Any = Nobody()
    with (
        Player(target, nobody, seed=0, max_turns=2, concurrency=4) as player,
        Demonstrations(player, base, section(words)) as shown,
    ):
        return shown.complete(played, tasks, 2, "iteration 1")


def test_only_the_last_episode_of_a_hopeless_group_gives_way(
    words: ModuleType, base: Path, groups: tuple[list[Task], list[Row]]
) -> None:
    target, (tasks, played) = words.Taught(), groups
    found, count = completed(words, base, target, groups)
    assert count == 2 and target.asked == [tasks[0].payload["word"], tasks[6].payload["word"]]
    replaced = [
        place for place, (one, other) in enumerate(zip(found, played, strict=True)) if one is not other
    ]
    assert replaced == [1, 7]
    assert all(found[place].success and found[place].reward == 1.1 for place in replaced)
    drawn = [found[1].logprobs[place] for place, own in enumerate(found[1].own) if own]
    assert drawn and all(math.isnan(one) for one in drawn), "no sampler drew what the oracle says"


def test_a_demonstration_that_fails_is_booked_and_not_learned(
    words: ModuleType, base: Path, groups: tuple[list[Task], list[Row]]
) -> None:
    target = words.Taught()
    target.answers = dict.fromkeys(words.WORDS, "w1")
    found, count = completed(words, base, target, groups)
    assert (count, found) == (2, groups[1])


def test_the_recipe_of_a_training_on_the_target_does_not_hang_on_it() -> None:
    asked, never = Training(demonstrate=True), Training()
    assert asked.recipe_version() != never.recipe_version()
    assert asked.unaided().recipe_version() == never.recipe_version()
