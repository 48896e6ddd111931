"""What each round comes to on test tasks, beside GRPO on the target at as many rollouts, over worlds.

    python -m tests.bench.rounds NAME=HOME... --to docs/rounds-desk-a/worlds.parquet
    python -m tests.bench.rounds docs/rounds-desk-a/worlds.parquet

A home is one that `trace demo --rounds N` played to its end; each is a world with a name of its own. A
Parquet file holds worlds that `--to` wrote before. Differences are paired by task within a world (bootstrap
over tasks), and over worlds by a t interval of the worlds' differences.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from trace_assets.stats.paired import compare
from trace_assets.tournament.worlds import across

RIVAL = "mixed_grpo"
"""GRPO on the target itself."""


def world_of(home: Path, name: str) -> pl.DataFrame:
    """Return passed and judged trials of a home's test tasks, by arm and task.

    Raises:
        SystemExit: If no test task was played there.
    """
    path = home / "tables" / "evaluations" / "test.parquet"
    if not path.exists():
        sys.exit(f"{home}: no test task was played there: {path.name} is missing from its evaluations.")
    rows = pl.read_parquet(path).filter(pl.col("success").is_not_null())
    return (
        rows.group_by("arm", "skill", "task_id")
        .agg(passed=pl.col("success").sum().cast(pl.Int16), trials=pl.len().cast(pl.Int16))
        .filter(pl.col("arm").str.starts_with("round:") | pl.col("arm").is_in(["base", "joint", RIVAL]))
        .with_columns(world=pl.lit(name))
        .sort("arm", "task_id")
    )


def differences(rows: pl.DataFrame, arm: str, rival: str) -> list[tuple[str, float, float, float]]:
    """Return by world what an arm passes more than a rival, with its interval, in points."""
    found = []
    for (world,), own in rows.group_by("world", maintain_order=True):
        both = own.filter(arm=arm).join(own.filter(arm=rival), on="task_id", suffix="_rival").sort("task_id")
        if both.is_empty():
            continue
        columns = ("passed", "trials", "passed_rival", "trials_rival")
        delta = compare(*(both[name].to_numpy().astype(np.int64) for name in columns)).delta
        assert delta.value is not None and delta.low is not None and delta.high is not None
        found.append((str(world), 100 * delta.value, 100 * delta.low, 100 * delta.high))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the worlds' table, differences over worlds, and rates by kind of task."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("worlds", nargs="+", metavar="NAME=HOME or FILE")
    parser.add_argument("--to", type=Path, help="Parquet file to write the worlds' tasks to")
    given = parser.parse_args(arguments)
    parts = []
    for one in given.worlds:
        name, is_home, home = one.partition("=")
        parts.append(world_of(Path(home), name) if is_home else pl.read_parquet(one))
    rows = pl.concat(parts)
    if given.to:
        rows.write_parquet(given.to, compression="zstd")
    arms = sorted(rows["arm"].unique().to_list())
    rates = rows.group_by("world", "arm").agg(
        rate=(100 * pl.col("passed") / pl.col("trials")).mean(), tasks=pl.len()
    )
    print(rates.pivot("arm", index=["world", "tasks"], values="rate").sort("world"))
    last = max(one for one in arms if one.startswith("round:"))
    for arm, rival in ((last, RIVAL), (last, "round:1"), ("round:1", RIVAL), (last, "base")):
        found = differences(rows, arm, rival)
        over = across([one[1] for one in found])
        worlds = "; ".join(f"{one[0]} {one[1]:+.1f} [{one[2]:+.1f}, {one[3]:+.1f}]" for one in found)
        interval = "" if over.low is None else f" [{over.low:+.1f}, {over.high:+.1f}], p = {over.p:.3g}"
        print(f"{arm} - {rival}: {over.mean:+.1f}{interval} over {over.n} worlds ({worlds})")
    kinds = rows.group_by("skill", "arm").agg(rate=(pl.col("passed") / pl.col("trials")).mean())
    print(kinds.pivot("arm", index="skill", values="rate").sort("skill"))


if __name__ == "__main__":
    main()
