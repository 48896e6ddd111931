"""Rivals that are trained as others are, but for one thing: on success alone, or on what passed elsewhere."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.tournament.test_arms import world_of_words
from tests.tournament.test_placebo_environment import one_environment, said
from tests.training.conftest import base, words
from trace_assets.tournament.arms import ARMS
from trace_assets.tournament.arms.one_adapter import Repaid, by_success
from trace_assets.tournament.arms.protocol import VERDICTS

__all__ = ["base", "words"]


def test_success_alone_is_paid(words: ModuleType) -> None:
    graded = words.WordTarget()
    binary = Repaid(graded, "paid by success", by_success)
    task = graded.tasks("discovery")[0]
    for text, paid in (
        (task.payload["word"], (1.1, 1.0)),
        ("another", (0.1, 0.0)),
        ("two words", (0.0, 0.0)),
    ):
        found = [asyncio.run(said(one.episode(task, seed=0), text)).reward for one in (graded, binary)]
        assert found == pytest.approx(list(paid))
    assert binary.version != graded.version and binary.name == graded.name
    assert [one.task_id for one in binary.tasks("test")] == [one.task_id for one in graded.tasks("test")]


@pytest.mark.ci
@pytest.mark.train
def test_direct_training_on_success_alone_is_played_and_booked(
    tmp_path: Path, words: ModuleType, base: Path
) -> None:
    pytest.importorskip("torch")
    section = words.SECTION
    budget = section.iterations * section.tasks_per_iteration * section.group_size
    world, arm = world_of_words(tmp_path, words, base, budget=budget), ARMS["direct_binary"]
    assert not arm.refusal(world)
    made = arm.play(world, tmp_path / "arm")
    assert {row.arm for row in made.rows} == {"direct_binary"}
    assert sum(bool(row.success) for row in made.rows) / len(made.rows) > 0.6, "one of five before"
    spent = {row["kind"]: row["marginal"] for row in made.spent}
    assert spent["training"] == budget and spent["audits"] == 0
    assert spent[VERDICTS] == spent["rollouts in all"] > budget
    assert "no adapter was trained" in arm.refusal(world_of_words(tmp_path / "no", words, base, budget=0))


@pytest.mark.ci
@pytest.mark.train
def test_successes_in_the_environments_are_learned(
    tmp_path: Path, words: ModuleType, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")

    class Sealed(words.WordTarget):  # type: ignore[misc, name-defined]
        def episode(self, task: Any, *, seed: int) -> Any:
            assert task.split == "test", "nothing but the test is played at the target"
            return super().episode(task, seed=seed)

    opened = one_environment(words, monkeypatch)
    world, arm = world_of_words(tmp_path, words, base, budget=12 * 40), ARMS["rft_environments"]
    vars(world.study)["target"] = Sealed()
    made = arm.play(world, tmp_path / "arm")
    assert opened == ["x"] and {row.arm for row in made.rows} == {"rft_environments"}
    assert sum(bool(row.success) for row in made.rows) / len(made.rows) > 0.6
    spent = {row["kind"]: row["marginal"] for row in made.spent}
    assert spent["training"] == 480 and spent["checkpoint looks"] == 3 * 10 and spent[VERDICTS] == 0
