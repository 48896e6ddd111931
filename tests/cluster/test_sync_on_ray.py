"""A sync whose items are made on a Ray cluster: the tables of one machine, though a worker is killed."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from homes import contents, made_how_often, run, same, simulation_files, trace

from tests.answering import InTurn, completion

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("files")
    return simulation_files(folder)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, files: list[str]) -> Path:
    home = tmp_path_factory.mktemp("alone") / "home"
    run(home, "ingest", *files)
    run(home, "diagnose")
    return home


def on_ray(cluster: Any) -> dict[str, str]:
    return {"TRACE__CLUSTER__ENGINE": "ray", "TRACE__CLUSTER__ADDRESS": cluster.address}


def test_the_tables_are_those_of_one_machine(
    ray_cluster: Any, tmp_path: Path, files: list[str], alone: Path
) -> None:
    home = tmp_path / "home"
    run(home, "ingest", *files, **on_ray(ray_cluster))
    run(home, "diagnose", **on_ray(ray_cluster))
    same(alone, home)
    made = made_how_often(home)
    assert made and run(home, "diagnose", **on_ray(ray_cluster))
    assert made_how_often(home) == made  # the second time nothing was due
    assert not list((home / "locks" / "cluster").glob("*")) and not list((home / "locks" / "probe").glob("*"))


def test_the_episodes_that_a_server_plays_are_those_of_one_machine(ray_cluster: Any, tmp_path: Path) -> None:
    with InTurn(completion("Goodbye.")) as server:
        settings = server.as_policy(tasks=12)
        homes = {}
        for name, cluster in {"alone": {}, "ray": on_ray(ray_cluster)}.items():
            homes[name] = tmp_path / name / "home"
            homes[name].parent.mkdir()
            run(homes[name], "sync", "--select", "tasks", "--select", "trajectories", **settings, **cluster)
    here, there = (
        {name: table.drop("seconds", strict=False) for name, table in contents(home).items()}
        for home in homes.values()
    )
    assert list(here) == list(there) and here["tables/trajectories/embedded.parquet"].height > 16
    assert [name for name in here if not here[name].equals(there[name])] == []


def test_a_killed_worker_costs_a_new_beginning_and_nothing_else(
    ray_cluster: Any, tmp_path: Path, files: list[str], alone: Path
) -> None:
    home = tmp_path / "home"
    run(home, "ingest", *files)
    process = trace(home, "diagnose", **on_ray(ray_cluster))
    killed = 0
    give_up = time.monotonic() + 600
    while not killed and process.poll() is None and time.monotonic() < give_up:
        for lock in (home / "locks" / "items").glob("*.lock"):
            said = lock.read_text()
            for one in worker_pids():
                if f'"pid": {one},' in said:
                    os.kill(one, signal.SIGKILL)
                    killed = one
                    break
            if killed:
                break
        time.sleep(0.001)
    said, _ = process.communicate(timeout=900)
    assert killed, "no worker was seen at an item"
    assert process.returncode == 0, said
    same(alone, home)


def worker_pids() -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if words.startswith(b"ray::"):
            found.append(int(folder.name))
    return found
