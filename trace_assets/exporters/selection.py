"""Which trajectories are exported, and the way to them that never holds them all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from trace_assets.errors import InputError
from trace_assets.records import Trajectory, TrajectoryHead
from trace_assets.store import Store
from trace_assets.store.trajectories import read_some

OUTCOMES = ("passed", "failed", "unjudged")
CHUNK = 256
"""Trajectories that are read at once."""


@dataclass(frozen=True)
class Selection:
    """A choice of trajectories; what is None does not restrict.

    Attributes:
        batch: One task batch.
        target: One target.
        outcome: Passed, failed, or without a verdict.
    """

    batch: str | None = None
    target: str | None = None
    outcome: str | None = None

    def trajectories(self, store: Store) -> Iterator[Trajectory]:
        """Yield the chosen trajectories, batch by batch in the order of their ids.

        Raises:
            InputError: The outcome, the batch or the target is not known, or nothing was chosen.
        """
        if self.outcome is not None and self.outcome not in OUTCOMES:
            names = _listed(OUTCOMES)
            raise InputError(f"there is no outcome '{self.outcome}'; choose one of {names}.")
        batches = store.partitions(TrajectoryHead)
        if self.batch is not None and self.batch not in batches:
            raise InputError(f"there is no batch '{self.batch}' in the store; there are {_listed(batches)}.")
        found, targets = 0, set[str]()
        for batch in batches if self.batch is None else [self.batch]:
            heads = store.frame(TrajectoryHead, batch).select("trajectory_id", "target", "success")
            targets.update(heads["target"])
            ids = heads.filter(self._wanted())["trajectory_id"].sort().to_list()
            found += len(ids)
            for first in range(0, len(ids), CHUNK):
                yield from read_some(store, batch, ids[first : first + CHUNK])
        if self.target is not None and self.target not in targets:
            raise InputError(f"there is no target '{self.target}'; there are {_listed(sorted(targets))}.")
        if not found:
            raise InputError(
                "no trajectory fits; loosen --batch, --target or --outcome, or ingest some first."
            )

    def _wanted(self) -> pl.Expr:
        wanted = pl.lit(True)
        if self.target is not None:
            wanted = wanted & (pl.col("target") == self.target)
        if self.outcome == "unjudged":
            wanted = wanted & pl.col("success").is_null()
        elif self.outcome is not None:
            wanted = wanted & pl.col("success").eq_missing(self.outcome == "passed")
        return wanted


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(names) or "none"
