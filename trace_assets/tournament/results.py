"""What came of a world: pass rates by task and arm, and everything that was spent."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from trace_assets.errors import InputError
from trace_assets.evaluation.arms import (
    BASE,
    COMPOSED,
    JOINT,
    ORACLE_COMPOSED,
    ORACLE_ROUTED,
    ROUND,
    ROUTED,
    SEQUENTIAL,
    SUM,
    TOGETHER,
    choice_of,
    compose_rows,
)
from trace_assets.records import NO_ADAPTER, Evaluation, Record
from trace_assets.records.table import polars_schema, to_frame
from trace_assets.routing.router import members_of
from trace_assets.store import Home, Warehouse
from trace_assets.store.files import make_folder, replacing_file

# Arms that are not played: read off the episodes of others, or another arm by definition.
#
# Read off are what validation released, and adapters chosen without knowledge. Where fewer than two adapters
# are taught, or composition was refused, a router has no set to choose: the composed agent is the routed one,
# and where nothing was taught every such agent is the base model. The agent after a round that came to
# nothing is the one before it. A world is not dropped for that, since how many skills were taught is a result
# of the method: only those worlds would count in which it did well.


RANDOM_ROUTING = "random_routing"
"""An adapter or none, drawn by lot for each task: what routing must beat."""
SWAPPED_ROUTING = "swapped_routing"
"""The router's choices with every adapter in another's place: as often an adapter, never the right one."""

RELEASED = "released"
"""What validation chose of all ways to put the adapters together: the agent that a user gets."""


def released_rows(rows: Sequence[Evaluation], chosen: str) -> list[Evaluation]:
    """Return the episodes of the arm that validation chose, as those of `released`.

    Args:
        rows: Test episodes of one world.
        chosen: Name of an arm; without any episode of it there are none of `released`.

    >>> released_rows([], "composed")
    []
    """
    return [row.model_copy(update={"arm": RELEASED}) for row in rows if row.arm == chosen]


def routing_controls(rows: Sequence[Evaluation], seed: int) -> list[Evaluation]:
    """Return what two arms without a router's knowledge come to; they cost no episodes of their own.

    Args:
        rows: Test episodes of one world.
        seed: Of the lots.

    Returns:
        Rows of the two arms. None where nothing was routed; `swapped_routing` takes two adapters or more,
        and without them has no row, which is no rate of 0.

    >>> routing_controls([], 0)
    []
    """
    routed = {row.task_id: row.adapter or NO_ADAPTER for row in rows if row.arm == ROUTED}
    played = {choice for row in rows if (choice := choice_of(row.arm)) is not None}
    adapters = sorted(name for name in played if len(members_of(name)) == 1)
    if not routed or not adapters:
        return []
    choices = [NO_ADAPTER, *adapters]
    lots = {task: random.Random(f"{seed}/{task}").choice(choices) for task in routed}
    found = compose_rows(RANDOM_ROUTING, lots, rows)
    if len(adapters) > 1:
        other = dict(zip(adapters, [*adapters[1:], adapters[0]], strict=True))
        swapped = {task: other.get(choice, choice) for task, choice in routed.items()}
        found += compose_rows(SWAPPED_ROUTING, swapped, rows)
    return found


Played = tuple[int, str]
"""A world and an arm."""


def stand_ins(
    played: Iterable[Played], wanted: Collection[str], trained: Collection[int] = ()
) -> dict[Played, str]:
    """Return which arm stands for another one that a world did not play.

    Args:
        played: What was played.
        wanted: Arms that a plan compares.
        trained: Worlds in which an adapter was trained, whether or not it was played alone.

    >>> one = [(1, "base"), (1, "routed"), (1, "adapter:a")]
    >>> stand_ins(one, ["composed", "sum", "mixed_grpo"])
    {(1, 'composed'): 'routed', (1, 'sum'): 'adapter:a'}
    >>> stand_ins([(2, "base")], ["composed", "joint", "swapped_routing"])
    {(2, 'composed'): 'base', (2, 'joint'): 'base', (2, 'swapped_routing'): 'base'}
    >>> stand_ins([*one, (1, "adapter:b")], ["composed", "sum"])
    {(1, 'composed'): 'routed'}
    >>> stand_ins([(1, "base"), (1, "round:1"), (2, "base")], ["round:2"])
    {(1, 'round:2'): 'round:1', (2, 'round:1'): 'base', (2, 'round:2'): 'base'}
    """
    by_world: dict[int, set[str]] = {}
    for world, arm in played:
        by_world.setdefault(world, set()).add(arm)
    every = sorted({*wanted, *(arm for arms in by_world.values() for arm in arms)})
    found = {}
    for world, arms in sorted(by_world.items()):
        for arm in every:
            source = _definition(arm, arms, world in trained)
            if arm not in arms and source in arms:
                found[world, arm] = source
    return found


OF_ADAPTERS = (
    *(ROUTED, ORACLE_ROUTED, RANDOM_ROUTING, SWAPPED_ROUTING, RELEASED),
    *(JOINT, SEQUENTIAL, TOGETHER, SUM),
)
"""Arms that are the base model where there is no adapter."""


def _definition(arm: str, played: Collection[str], trained: bool) -> str:
    """Return what an arm is where it was not played; empty where that is not clear."""
    if arm.startswith(ROUND):  # a round that came to nothing leaves the agent of the one before
        before = (f"{ROUND}{number}" for number in range(int(arm.removeprefix(ROUND)) - 1, 0, -1))
        return next((one for one in before if one in played), BASE)
    adapters = [one for one in played if len(_members(one)) == 1]
    if not adapters and not trained and arm in OF_ADAPTERS:
        return BASE
    if arm in (COMPOSED, ORACLE_COMPOSED):
        routed = ROUTED if arm == COMPOSED else ORACLE_ROUTED
        return routed if routed in played or adapters or trained else BASE
    return adapters[0] if len(adapters) == 1 and arm in (JOINT, SEQUENTIAL, TOGETHER, SUM) else ""


def _members(arm: str) -> Sequence[str]:
    choice = choice_of(arm)
    return () if choice in (None, NO_ADAPTER) else members_of(str(choice))


def with_stand_ins(rows: pl.DataFrame, standing: dict[Played, str]) -> pl.DataFrame:
    """Return rows that have a world and an arm, with those of arms that others stand for.

    Args:
        rows: Columns `world`, `arm` and any others.
        standing: World and arm, to what stands for it there.
    """
    more = [
        rows.filter((pl.col("world") == world) & (pl.col("arm") == source)).with_columns(arm=pl.lit(arm))
        for (world, arm), source in standing.items()
    ]
    return pl.concat([rows, *more])


def in_words(standing: dict[Played, str]) -> list[str]:
    """Say what stands for what, a line for each pair of arms.

    >>> in_words({(1, "composed"): "routed", (3, "composed"): "routed", (3, "sum"): "base"})
    ['`composed` is `routed` in worlds 1, 3', '`sum` is `base` in world 3']
    """
    worlds: dict[tuple[str, str], list[int]] = {}
    for (world, arm), source in sorted(standing.items()):
        worlds.setdefault((arm, source), []).append(world)
    return [
        f"`{arm}` is `{source}` in world{'s' * (len(own) > 1)} {', '.join(map(str, own))}"
        for (arm, source), own in sorted(worlds.items())
    ]


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
