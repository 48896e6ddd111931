"""An audit's episodes in shards: what one process would find, and no fault of another machine unsaid."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from served_door import DOOR, ROLLOUTS, SEEDS, Knowing, audit_door, door_study, roll_out_on_door

from tests.audit_fixtures.runner import ZOO_PERMUTATION
from trace_assets.environments.audit.check import audited_target
from trace_assets.errors import Unavailable
from trace_assets.records import Trajectory
from trace_assets.resources.divided_audit import divided_rollouts, play_audit_shard
from trace_assets.rollouts.episode import Trial
from trace_assets.rollouts.parallel import helped_by
from trace_assets.sandbox import SandboxPool
from trace_assets.sandbox.reward_verification import Drawn, Recomputation, RewardMismatch, Sample
from trace_assets.study import Study
from trace_assets.targets.sandboxed import SandboxedTarget

T = TypeVar("T")
pytestmark = pytest.mark.filterwarnings("ignore:the sandbox backend")


class Team:
    """Makes the calls one after the other in this process, the last one first."""

    workers = 3

    def __init__(self) -> None:
        self.calls: list[Sequence[Any]] = []
        self.has_sandbox = False

    def with_sandbox(self) -> Team:
        self.has_sandbox = True
        return self

    def each(self, work: Callable[..., T], calls: Sequence[tuple[Any, ...]]) -> Iterator[T]:
        self.calls = list(calls)
        for call in reversed(calls):
            yield work(*call)


@pytest.fixture(scope="module")
def server() -> Iterator[Knowing]:
    with Knowing() as made:
        yield made


@pytest.fixture
def study(server: Knowing, tmp_path: Path) -> Iterator[Study]:
    with door_study(tmp_path, server):
        yield Study.open()


@pytest.fixture
def door(pool: SandboxPool, study: Study) -> Iterator[SandboxedTarget]:
    target = audited_target(DOOR, pool, ZOO_PERMUTATION, study.settings.synthesis)
    yield target
    target.close()


def timeless(played: Sequence[Trajectory]) -> list[Trajectory]:
    return [one.model_copy(update={"seconds": None}) for one in played]


def test_shards_come_to_what_one_process_does_row_for_row(study: Study) -> None:
    alone, team = roll_out_on_door(), Team()
    with helped_by(team):
        divided = roll_out_on_door()
    assert [len(call[2]) for call in team.calls] == [16, 16, 16] and team.has_sandbox
    assert timeless(divided) == timeless(alone) and len(alone) == SEEDS * ROLLOUTS
    assert {one.success for one in alone} == {True, False}


@pytest.mark.slow
def test_a_divided_audit_writes_what_a_whole_one_does(study: Study) -> None:
    alone = audit_door()
    with helped_by(Team()):
        assert audit_door() == alone
    band = next(one for one in alone[0] if one.check_id == "trace.pass_band")
    assert band.n == SEEDS * ROLLOUTS and band.value is not None and 0 < band.value < 1


def test_what_shards_drew_is_played_again_where_it_was_asked_for(
    door: SandboxedTarget, pool: SandboxPool
) -> None:
    trials = [Trial(task) for task in door.tasks("discovery")]
    shard = play_audit_shard(trials, DOOR, ZOO_PERMUTATION, door.version)
    assert shard.drawn.episodes == len(shard.played) and shard.drawn.samples
    taken = Recomputation(pool, DOOR.source, name="the door", share=1.0)
    taken.take(shard.drawn)
    seen = taken.settle()
    assert (seen.episodes, seen.recomputed) == (shard.drawn.episodes, len(shard.drawn.samples))
    taken.close()

    one = shard.drawn.samples[0]
    other = 1.0 - float(one.verdict["reward"])
    forged = Sample(one.seed, one.actions, {**one.verdict, "reward": other})
    told = Recomputation(pool, DOOR.source, name="the door", share=1.0)
    told.take(Drawn(1, (forged,)))
    with pytest.raises(RewardMismatch, match="not decided by seed and actions alone"):
        told.settle()
    told.close()


def test_a_machine_with_another_sandbox_is_refused(door: SandboxedTarget) -> None:
    with pytest.raises(Unavailable, match="is not the one that the audit of 'door' runs in"):
        play_audit_shard([Trial(door.tasks("discovery")[0])], DOOR, ZOO_PERMUTATION, "another version")


def test_a_server_that_breaks_most_of_all_shards_is_no_finding(study: Study, server: Knowing) -> None:
    server.is_broken = True
    try:
        with helped_by(Team()), pytest.raises(Unavailable, match="48 of 48 trials broke"):
            roll_out_on_door()
    finally:
        server.is_broken = False


def test_a_model_of_our_own_and_one_without_help_play_alone(study: Study) -> None:
    assert divided_rollouts(study) is None
    with helped_by(Team()):
        assert divided_rollouts(study) is not None
        own = study.settings.model_copy(
            update={"rollouts": study.settings.rollouts.model_copy(update={"engine": "transformers"})}
        )
        assert divided_rollouts(Study(study.home, own)) is None
