"""The placebo environment: what an agent sees is the environment's, and what it is paid is a coin's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.tournament.test_arms import world_of_words
from tests.training.conftest import base, words
from trace_assets.errors import TraceError
from trace_assets.records import Message, Verdict
from trace_assets.tournament.arms import ARMS
from trace_assets.tournament.arms.one_adapter import coin_paid

__all__ = ["base", "words"]
ARM = ARMS["placebo_environment"]


async def said(episode: Any, text: str) -> Verdict:
    await episode.reset()
    await episode.step(Message(role="assistant", content=text))
    verdict: Verdict = await episode.verdict()
    await episode.close()
    return verdict


def one_environment(words: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have the words stand for a world's one environment; return where each opening of it is noted."""
    opened: list[str] = []

    @contextmanager
    def training_target(study: Any, environment: Any) -> Iterator[Any]:
        opened.append(environment.environment_id)
        yield words.WordTarget()

    monkeypatch.setattr("trace_assets.assets.environment_audit.taught", lambda study: ["x"])
    monkeypatch.setattr("trace_assets.resources.sandbox.training_target", training_target)
    monkeypatch.setattr(
        "trace_assets.resources.sandbox.read_environment",
        lambda study, name: SimpleNamespace(environment_id=name),
    )
    return opened


def paid(target: Any, right: bool, episodes: int = 400) -> list[Verdict]:
    task = target.tasks("discovery")[0]
    text = task.payload["word"] if right else "another"
    return [asyncio.run(said(target.episode(task, seed=seed), text)) for seed in range(episodes)]


def test_what_is_paid_has_nothing_to_do_with_what_is_said(words: ModuleType) -> None:
    target = coin_paid(words.WordTarget())
    right, wrong = paid(target, right=True), paid(target, right=False)
    assert right == wrong, "the coin is the episode's own, whatever the agent does"
    assert 150 < sum(bool(one.success) for one in right) < 250, "400 throws of a fair coin"
    assert {one.reward for one in right} == {0.0, 1.0}
    assert target.version != words.WordTarget().version
    assert all(one.success for one in paid(words.WordTarget(), right=True, episodes=3)), "and not by itself"


def test_an_episode_that_breaks_is_not_paid_by_the_coin(words: ModuleType) -> None:
    target = coin_paid(words.WordTarget(lambda task, seed: True))
    with pytest.raises(TraceError):
        paid(target, right=True, episodes=1)

    class Unjudged(words.WordEpisode):  # type: ignore[misc, name-defined]
        async def verdict(self) -> Verdict:
            return Verdict(reward=None, success=None)

    class Silent(words.WordTarget):  # type: ignore[misc, name-defined]
        def episode(self, task: Any, *, seed: int) -> Any:
            return Unjudged(task.payload["word"], False)

    assert {one.reward for one in paid(coin_paid(Silent()), right=True, episodes=8)} == {None}


@pytest.mark.ci
@pytest.mark.train
def test_training_on_a_coin_is_played_and_booked_and_teaches_no_word(
    tmp_path: Path, words: ModuleType, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    opened = one_environment(words, monkeypatch)
    section = words.SECTION
    budget = 4 * section.tasks_per_iteration * section.group_size
    world = world_of_words(tmp_path, words, base, budget=budget)
    assert not ARM.refusal(world)
    made = ARM.play(world, tmp_path / "placebo")
    assert opened == ["x"] and {row.arm for row in made.rows} == {"placebo_environment"}
    rate = sum(bool(row.success) for row in made.rows) / len(made.rows)
    assert rate < 0.5, "the base model says the word in about one case of five"
    spent = {row["kind"]: row["marginal"] for row in made.spent}
    assert spent["training"] == budget and spent["checkpoint looks"] > 0 and spent["audits"] == 0
    assert spent["rollouts in all"] == budget + spent["checkpoint looks"]
    again = ARM.play(world, tmp_path / "placebo")
    assert opened == ["x"], "what is made is not made again"
    assert [row.success for row in again.rows] == [row.success for row in made.rows]


@pytest.mark.ci
def test_without_an_adapter_there_is_no_placebo(tmp_path: Path, words: ModuleType, base: Path) -> None:
    assert "no adapter was trained" in ARM.refusal(world_of_words(tmp_path, words, base, budget=0))
