"""A generic environment as an arm: another desk than the world's, trained on at the adapters' rollouts."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.tournament.test_arms import world_of_words
from tests.training.conftest import base, words
from trace_assets.settings import Settings
from trace_assets.store import Home
from trace_assets.study import Study
from trace_assets.tournament.arms import ARMS
from trace_assets.tournament.arms.one_adapter import other_desk
from trace_assets.tournament.arms.protocol import VERDICTS, PlayedWorld

__all__ = ["base", "words"]
ARM = ARMS["generic_desk"]


@pytest.mark.parametrize(("desk", "other"), [("a", "d"), ("b", "d"), ("c", "d"), ("d", "a")])
def test_it_is_trained_on_a_desk_that_asks_for_other_skills(tmp_path: Path, desk: str, other: str) -> None:
    settings = Settings.model_validate({"targets": {"options": {"desk": desk}, "discovery_tasks": 30}})
    study = Study.of(Home.open(tmp_path), settings)
    generic = other_desk(PlayedWorld(1, study, ()))
    assert generic.desk == other and len(generic.tasks("discovery")) == 30
    simple = {"address", "exchange", "status"}
    asked = [
        {one.tags[0] for one in target.tasks("discovery")} - simple for target in (generic, study.target)
    ]
    assert asked[0] and asked[1] and not asked[0] & asked[1]


@pytest.mark.ci
def test_any_target_may_be_compared_with_it(tmp_path: Path, words: ModuleType, base: Path) -> None:
    world = world_of_words(tmp_path, words, base, budget=0)
    assert other_desk(world).desk == "d" and "no adapter was trained" in ARM.refusal(world)


@pytest.mark.ci
@pytest.mark.train
def test_it_is_played_and_booked(
    tmp_path: Path, words: ModuleType, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    opened: list[str] = []

    def a_word_target(desk: Any) -> Any:
        opened.append(desk.desk)
        return nullcontext(words.WordTarget())

    monkeypatch.setattr("trace_assets.tournament.arms.one_adapter.nullcontext", a_word_target)
    section = words.SECTION
    budget = 4 * section.tasks_per_iteration * section.group_size
    world = world_of_words(tmp_path, words, base, budget=budget)
    assert not ARM.refusal(world)
    made = ARM.play(world, tmp_path / "generic")
    assert opened == ["d"] and {row.arm for row in made.rows} == {"generic_desk"}
    assert made.note == "trained on desk d"
    spent = {row["kind"]: row["marginal"] for row in made.spent}
    assert spent["training"] == budget and spent["discovery"] == 0 == spent["audits"]
    assert spent[VERDICTS] == 0
    again = ARM.play(world, tmp_path / "generic")
    assert opened == ["d"], "what is made is not made again"
    assert [row.success for row in again.rows] == [row.success for row in made.rows]
