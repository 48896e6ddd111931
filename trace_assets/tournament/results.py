"""What came of a world: pass rates by task and arm, and everything that was spent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from trace_assets.errors import InputError
from trace_assets.evaluation.arms import ROUTED
from trace_assets.records import Record
from trace_assets.records.table import polars_schema, to_frame
from trace_assets.store import Home, Warehouse
from trace_assets.store.files import make_folder, replacing_file
from trace_assets.tournament.derived import RANDOM_ROUTING, SWAPPED_ROUTING

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
            frame = pl.read_parquet(file, glob=False)
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


QUERY = "spending_by_arm"
"""The ready query that reads it off a world's tables; it answers for any study."""
ALL = "rollouts in all"
NOT_RECORDED = "not recorded"


class Spent(Record):
    """One kind of spending of one arm in one world."""

    world: int
    arm: str
    kind: str
    unit: str
    marginal: float | None
    """For the arm alone, where discovery, diagnosis and environments are there already; None where it was
    not recorded."""
    all_in: float | None
    """As though the arm were the only one; the world itself (tasks and base model) is in neither figure."""
    place: int
    """Among the kinds of an arm."""


def spent_in(home: Home, world: int) -> list[Spent]:
    """Read off a world's tables what its arms took.

    Arms that choose otherwise among the same adapters take what the routed arm takes.
    """
    with Warehouse(home) as warehouse:
        rows = [Spent(world=world, **row) for row in warehouse.ready(QUERY).iter_rows(named=True)]
    controls = [
        row.model_copy(update={"arm": name})
        for name in (RANDOM_ROUTING, SWAPPED_ROUTING)
        for row in rows
        if row.arm == ROUTED
    ]
    return [*rows, *controls]


def read_spending(folder: Path, homes: dict[int, Path], arms: Sequence[tuple[int, str]]) -> pl.DataFrame:
    """Return what the arms of all finished worlds took.

    A world that was finished before spending was kept apart is read off its home; where that is gone, nothing
    is known of it.

    Args:
        folder: Of the tournament.
        homes: Finished world to its home.
        arms: World and arm of everything that was played.

    Returns:
        Columns of `Spent`; an arm without any row was not recorded.
    """
    frames = [read_rows(folder, SPENDING, Spent)]
    for world, path in homes.items():
        if not result_file(folder, SPENDING, world).is_file() and (path / "tables").is_dir():
            try:
                rows = spent_in(Home.open(path, writable=False), world)
            except InputError:  # lost or altered tables: what they held is not known
                continue
            frames.append(pl.DataFrame([row.model_dump() for row in rows], schema=frames[0].schema))
    played = pl.DataFrame(arms, schema={"world": pl.Int64, "arm": pl.String}, orient="row")
    return pl.concat(frames).join(played.unique(), on=["world", "arm"], how="semi")


def mean_spending(rows: pl.DataFrame, arms: Sequence[tuple[int, str]]) -> pl.DataFrame:
    """Return the mean over worlds; one world in which a kind was not recorded leaves it so for the arm.

    Args:
        rows: Columns of `Spent`.
        arms: World and arm of everything that was played.

    Returns:
        arm, place, kind, unit, marginal, all_in and worlds, for every arm and every kind that any arm has.
    """
    played = pl.DataFrame(arms, schema={"world": pl.Int64, "arm": pl.String}, orient="row").unique()
    kinds = rows.select("place", "kind", "unit").unique()
    every = played.join(kinds, how="cross").join(
        rows.drop("unit", "place"), on=["world", "arm", "kind"], how="left"
    )

    def mean(name: str) -> pl.Expr:
        return pl.when(pl.col(name).is_null().any()).then(None).otherwise(pl.col(name).mean()).alias(name)

    return (
        every.group_by("arm", "place", "kind", "unit")
        .agg(mean("marginal"), mean("all_in"), worlds=pl.col("world").n_unique())
        .sort("arm", "place", "kind")
    )


def cell(row: dict[str, Any]) -> str:
    """Write one figure: alone, and all-in where that is another one.

    >>> cell({"marginal": 1280.0, "all_in": 2080.0}), cell({"marginal": 0.0, "all_in": 0.0})
    ('1,280 / 2,080', '0')
    >>> cell({"marginal": None, "all_in": None}), cell({"marginal": 0.25, "all_in": None})
    ('not recorded', '0.25 / not recorded')
    """
    alone, whole = _number(row["marginal"]), _number(row["all_in"])
    return alone if alone == whole else f"{alone} / {whole}"


def _number(value: float | None) -> str:
    if value is None:
        return NOT_RECORDED
    return f"{value:,.0f}" if value == 0 or value >= 10 else f"{value:.2g}"
