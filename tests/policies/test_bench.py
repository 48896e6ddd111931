"""The comparison of engines counts what was played, and compares rewards task by task."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("psutil")

from tests.bench.policies import Engine, Figures, Round, against, measure, rows
from trace_assets.errors import Unavailable
from trace_assets.policies.protocol import Conversation, Policy, Reply
from trace_assets.policies.transformers_engine import TransformersPolicy
from trace_assets.settings import Targets
from trace_assets.targets.embedded.target import EmbeddedTarget

OPTIONS = argparse.Namespace(rounds=2, max_turns=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.untrained import make_untrained

    return make_untrained(tmp_path_factory.mktemp("agent") / "model")


@contextmanager
def opened(folder: Path, kind: type[TransformersPolicy] = TransformersPolicy) -> Iterator[Policy]:
    yield kind(folder, max_new_tokens=6)


def test_what_is_counted_is_what_was_played(folder: Path) -> None:
    tasks = EmbeddedTarget(Targets(discovery_tasks=6)).tasks("discovery")
    found = measure(Engine("here", lambda: opened(folder), 4), tasks, OPTIONS)
    assert [one.episodes for one in found.rounds] == [6, 6]
    assert {len(rewards) for rewards in found.rewards.values()} == {2} and len(found.rewards) == 6
    # An untrained model writes up to its limit, and an episode has one or two replies.
    assert all(6 * 6 // 2 <= one.tokens <= 2 * 6 * 6 for one in found.rounds)
    assert all(one.cpu_seconds > 0 and 0 < one.seconds < 60 for one in found.rounds)
    few = measure(Engine("few", lambda: opened(folder), 1, tasks=2), tasks, OPTIONS)
    assert [one.episodes for one in few.rounds] == [2, 2]
    assert against(few, found).n_tasks == 2


def test_an_engine_that_breaks_has_no_figures(folder: Path) -> None:
    class Broken(TransformersPolicy):
        async def act(self, conversation: Conversation) -> Reply:
            raise Unavailable("the engine is gone.")

    tasks = EmbeddedTarget(Targets(discovery_tasks=2)).tasks("discovery")
    with pytest.raises(Unavailable, match=r"2 episodes of 'gone' broke: .*engine is gone"):
        measure(Engine("gone", lambda: opened(folder, Broken), 4), tasks, OPTIONS)


def test_an_engine_that_plays_worse_shows() -> None:
    def figures(name: str, reward: float) -> Figures:
        each = {f"t{n}": [1.0, reward if n % 2 else 1.0] for n in range(40)}
        return Figures(name, 8, 1.0, [Round(40, 400, 2.0, 4.0), Round(40, 400, 1.0, 2.0)], each)

    base, same, worse = figures("base", 1.0), figures("same", 1.0), figures("worse", 0.0)
    assert against(same, base).delta.value == 0
    delta = against(worse, base).delta
    assert delta.value == pytest.approx(-0.25)
    assert delta.high is not None and delta.high < 0
    table = rows([base, worse])
    assert table[0][1:7] == ["40 x 2", "8", "1.0", "30.0 (20.0-40.0)", "300 (200-400)", "75"]
    assert table[1][-1].startswith("-0.250 [") and table[1][-1].endswith("], 40")
