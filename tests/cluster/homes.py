"""Homes that the same work was done on, by the program as a command, and whether they hold the same."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from trace_assets.records import LedgerEntry
from trace_assets.store import Home, Store

sys.path.insert(0, str(Path(__file__).parents[1] / "orchestration"))
from simulations import simulation_file

DESKS = ("desk", "shop", "till")


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


def simulation_files(folder: Path, names: Sequence[str] = DESKS[:2]) -> list[str]:
    """Write a file of trajectories for each of some desks."""
    return [
        str(simulation_file(folder / f"{name}.json", name, n=24, lacking=8 + n, domain=name))
        for n, name in enumerate(names)
    ]


def same(one: Path, other: Path) -> None:
    here, there = contents(one), contents(other)
    assert list(here) == list(there) and here
    assert [name for name in here if not here[name].equals(there[name])] == []
    assert made_how_often(one) == made_how_often(other)
