"""One item's episodes divided over the workers of a pool: what local processes would have played."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from calls import open_nothing, open_with_another, play_divided, wait_for

from trace_assets.errors import InputError
from trace_assets.orchestration.worker_pool import Pool, WorkerPool
from trace_assets.records import Trajectory
from trace_assets.settings.operation import Cluster


def ray_pool(cluster: Any) -> Pool:
    from trace_assets.orchestration.cluster.ray_pool import RayPool

    return RayPool(Cluster(engine="ray", address=cluster.address))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[Trajectory]:
    """What the pool of local processes plays."""
    with WorkerPool(1) as pool:
        return timeless(pool.submit(play_divided, tmp_path_factory.mktemp("alone")).result(600))


def timeless(played: Sequence[Trajectory]) -> list[Trajectory]:
    return [one.model_copy(update={"seconds": None}) for one in played]


def lines(folder: Path) -> Counter[str]:
    """Return how often each episode was played."""
    return Counter(
        name
        for file in folder.glob("*.jsonl")
        for name in re.findall(r'"trajectory_id":"(\w+)"', file.read_text())
    )


@pytest.mark.ci
def test_a_local_pool_helps_with_processes_of_its_own(alone: list[Trajectory], tmp_path: Path) -> None:
    assert len(alone) == 120 and alone == timeless(play_divided(tmp_path))


@pytest.mark.slow
def test_shards_on_a_cluster_are_played_by_several_workers_and_give_what_one_machine_does(
    ray_cluster: Any, tmp_path: Path, alone: list[Trajectory]
) -> None:
    with ray_pool(ray_cluster) as pool:
        call = pool.submit(play_divided, tmp_path, None, partial(open_with_another, tmp_path))
        assert timeless(call.result(600)) == alone
        assert len(lines(tmp_path)) == lines(tmp_path).total() == 120
        workers = {file.stem.partition("-")[2] for file in tmp_path.glob("*.jsonl")}
        assert len(workers) > 1
        before = lines(tmp_path)
        assert timeless(pool.submit(play_divided, tmp_path).result(600)) == alone
        assert lines(tmp_path) == before  # what is in the journal is not played again


@pytest.mark.slow
def test_a_lost_shard_is_played_anew_alone(ray_cluster: Any, tmp_path: Path, alone: list[Trajectory]) -> None:
    folder, deadly = tmp_path / "journal", tmp_path / "deadly"
    with ray_pool(ray_cluster) as pool:
        assert timeless(pool.submit(play_divided, folder, deadly).result(600)) == alone
    assert deadly.exists() and set(lines(folder).values()) == {1}


@pytest.mark.slow
def test_an_item_of_a_busy_cluster_plays_its_shards_itself(
    ray_cluster: Any, tmp_path: Path, alone: list[Trajectory]
) -> None:
    with ray_pool(ray_cluster) as pool:
        busy = [pool.submit(wait_for, tmp_path, name) for name in "a"]
        assert timeless(pool.submit(play_divided, tmp_path / "journal").result(600)) == alone
        (tmp_path / "go").touch()
        assert all(call.result(600) for call in busy)


@pytest.mark.slow
def test_what_a_shard_raises_is_what_the_item_raises(ray_cluster: Any, tmp_path: Path) -> None:
    with ray_pool(ray_cluster) as pool, pytest.raises(InputError, match="there is no model here"):
        pool.submit(play_divided, tmp_path, None, open_nothing).result(600)
