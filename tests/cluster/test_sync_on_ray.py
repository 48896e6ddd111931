"""A sync whose items are made on a Ray cluster: the tables of one machine, though a worker is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from trace_assets.records import LedgerEntry
from trace_assets.store import Home, Store

sys.path.insert(0, str(Path(__file__).parents[1] / "orchestration"))
from simulations import simulation_file

pytestmark = pytest.mark.slow


def trace(home: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "trace_assets", *arguments],
        cwd=home.parent,
        env={**os.environ, "TRACE_HOME": str(home), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(home: Path, *arguments: str, **variables: str) -> str:
    process = trace(home, *arguments, **variables)
    said, _ = process.communicate(timeout=900)
    assert process.returncode == 0, said
    return said


def contents(home: Path) -> dict[str, pl.DataFrame]:
    """Return the tables that follow from the trajectories alone."""
    return {
        path.relative_to(home).as_posix(): pl.read_parquet(path)
        for path in sorted((home / "tables").glob("*/*.parquet"))
        if path.parent.name not in ("ledger", "lineage", "arrivals", "ingested_files", "made_with")
    }


def made_how_often(home: Path) -> Counter[tuple[str, str]]:
    rows = Store(Home.open(home).tables).read(LedgerEntry)
    return Counter((row.asset, row.partition) for row in rows if row.kind == "wall")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("files")
    return [
        str(simulation_file(folder / f"{name}.json", name, n=24, lacking=8 + n, domain=name))
        for n, name in enumerate(("desk", "shop"))
    ]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, files: list[str]) -> Path:
    home = tmp_path_factory.mktemp("alone") / "home"
    run(home, "ingest", *files)
    run(home, "diagnose")
    return home


def on_ray(cluster: Any) -> dict[str, str]:
    return {"TRACE__CLUSTER__ENGINE": "ray", "TRACE__CLUSTER__ADDRESS": cluster.address}


def same(one: Path, other: Path) -> None:
    here, there = contents(one), contents(other)
    assert list(here) == list(there) and here
    assert [name for name in here if not here[name].equals(there[name])] == []
    assert made_how_often(one) == made_how_often(other)


def test_the_tables_are_those_of_one_machine(
    ray_cluster: Any, tmp_path: Path, files: list[str], alone: Path
) -> None:
    home = tmp_path / "home"
    run(home, "ingest", *files, **on_ray(ray_cluster))
    run(home, "diagnose", **on_ray(ray_cluster))
    same(alone, home)
    assert "up to date" in run(home, "diagnose", **on_ray(ray_cluster)) or made_how_often(home)
    assert not list((home / "locks" / "cluster").glob("*")) and not list((home / "locks" / "probe").glob("*"))


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
