"""What came of a world: pass rates by task and arm, and everything that was spent."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import polars as pl

from trace_assets.errors import InputError
from trace_assets.records import Record
from trace_assets.records.table import polars_schema, to_frame
from trace_assets.store.files import make_folder, replacing_file

R = TypeVar("R", bound=Record)
RESULTS, COSTS, SPENDING = "results", "costs", "spending"


class TaskResult(Record):
    """One task under one arm in one world."""

    plan: str
    """Fingerprint of the plan under which it was made."""
    world: int
    arm: str
    task_id: str
    skill: str
    passed: int
    judged: int
    """Trials without a fault; a task without any counts in no comparison."""


class Cost(Record):
    """What one asset took in one world."""

    plan: str
    world: int
    asset: str
    kind: str
    """`rollouts`, `cpu`, `wall`, tokens and so on, as in the ledger."""
    unit: str
    quantity: float
    cost_usd: float


def write_rows(file: Path, record: type[R], rows: Iterable[R]) -> None:
    """Write rows of one world, all or none."""
    frame = to_frame(rows, record)
    make_folder(file.parent)
    with replacing_file(file) as partial:
        frame.write_parquet(partial)


def read_rows(folder: Path, name: str, record: type[Record]) -> pl.DataFrame:
    """Return the rows of all finished worlds.

    Args:
        folder: Of the tournament.
        name: `results`, `costs` or `spending`.
        record: Its rows' type.

    Raises:
        InputError: A file is not what was written there.
    """
    frames = [pl.DataFrame(schema=polars_schema(record))]
    for file in sorted((folder / name).glob("world-*.parquet")):
        try:
            frame = pl.read_parquet(file)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise InputError(
                f"{file} cannot be read ({error}); delete it, and `trace tournament run` takes it up again "
                "from the world's home."
            ) from error
        if frame.schema != frames[0].schema:
            raise InputError(f"{file} has other columns than a tournament's; delete it and run again.")
        frames.append(frame)
    return pl.concat(frames)


def result_file(folder: Path, name: str, world: int, arm: str = "") -> Path:
    """Return where the rows of a world lie, or of an arm of its own in that world."""
    return folder / name / f"world-{world:03d}{f'-{arm}' if arm else ''}.parquet"
