"""What came of a world: pass rates by task and arm, and everything that was spent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import polars as pl
from pydantic import BaseModel, ConfigDict

from trace_assets.errors import InputError
from trace_assets.store.files import make_folder, replacing_file

RESULTS, COSTS = "results", "costs"
MISSING = "missing"


class TaskResult(BaseModel):
    """One task under one arm in one world."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    plan: str
    """Fingerprint of the plan under which it was made."""
    world: int
    arm: str
    task_id: str
    skill: str
    passed: int
    judged: int
    """Trials without a fault; a task without any counts in no comparison."""


class Cost(BaseModel):
    """What one asset took in one world."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    plan: str
    world: int
    asset: str
    kind: str
    """`rollouts`, `cpu`, `wall`, tokens and so on, as in the ledger."""
    unit: str
    quantity: float
    cost_usd: float


SCHEMAS: Mapping[type[BaseModel], dict[str, type[pl.DataType]]] = {
    TaskResult: {
        **dict.fromkeys(("plan",), pl.String),
        "world": pl.Int64,
        **dict.fromkeys(("arm", "task_id", "skill"), pl.String),
        **dict.fromkeys(("passed", "judged"), pl.Int64),
    },
    Cost: {
        "plan": pl.String,
        "world": pl.Int64,
        **dict.fromkeys(("asset", "kind", "unit"), pl.String),
        **dict.fromkeys(("quantity", "cost_usd"), pl.Float64),
    },
}


def write_rows(file: Path, record: type[BaseModel], rows: Iterable[BaseModel]) -> None:
    """Write rows of one world, all or none."""
    frame = pl.DataFrame([row.model_dump() for row in rows], schema=SCHEMAS[record])
    make_folder(file.parent)
    with replacing_file(file) as partial:
        frame.write_parquet(partial)


def read_rows(folder: Path, name: str, record: type[BaseModel]) -> pl.DataFrame:
    """Return the rows of all finished worlds.

    Args:
        folder: Of the tournament.
        name: `results` or `costs`.
        record: Its rows' type.

    Raises:
        InputError: A file is not what was written there.
    """
    frames = [pl.DataFrame(schema=SCHEMAS[record])]
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


def result_file(folder: Path, name: str, world: int) -> Path:
    """Return where a world's rows lie."""
    return folder / name / f"world-{world:03d}.parquet"
