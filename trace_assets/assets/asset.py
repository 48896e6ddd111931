"""What an asset is, in plain Python: a function that makes tables, and what the pipeline must know of it.

`@asset` leaves the function as it is, so that it runs from Python and in tests without Dagster; what it says
lies at the function as `asset_of(function)`. `orchestration.dagster_asset` makes Dagster's assets of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from trace_assets.records import Record

Figure = int | float | str | bool

TableRow = Mapping[str, int | float | str | bool | None]
"""A row of a small table for people; figures carry their interval in words."""


@dataclass(frozen=True)
class StageCheck:
    """A check on what a stage made.

    Attributes:
        name: Stable name, one check a name and asset.
        passed: Whether it holds; None when it could not be run, which is shown and is never a pass.
        detail: One sentence with the figures.
        severity: A failed `error` stops what comes next; a failed `warning` is shown.
    """

    name: str
    passed: bool | None
    detail: str
    severity: Literal["error", "warning"] = "error"


@dataclass(frozen=True)
class StageResult:
    """What a stage made.

    Attributes:
        version: Content version of all tables and folders written: equal content, equal version.
        rows: Rows in the main table.
        figures: Numbers and short texts with stable names; None is left out.
        pages: Markdown by title: plots, code, long text.
        tables: Small tables by title, at most some dozens of rows; all rows have the same columns.
        checks: What was checked.
        spent: (kind, unit) to quantity, for the ledger, beside wall and CPU seconds.
        cost_usd: Money spent.
        recorded: To be called once the materialization is recorded: removes what another try would have
            needed.
    """

    version: str
    rows: int
    figures: Mapping[str, Figure] = field(default_factory=dict)
    pages: dict[str, str] = field(default_factory=dict)
    tables: Mapping[str, Sequence[TableRow]] = field(default_factory=dict)
    checks: tuple[StageCheck, ...] = ()
    spent: dict[tuple[str, str], float] = field(default_factory=dict)
    cost_usd: float = 0.0
    recorded: Callable[[], None] | None = None


PartitionedBy = Literal["task_batch", "capability"]
"""Tasks arrive in batches, so that a new batch never redoes the rollouts of an old one; and one key a kept
capability, which comes and goes with the selection."""

Work = TypeVar("Work", bound=Callable[..., StageResult])


@dataclass(frozen=True)
class Asset:
    """An asset as it is declared above its function.

    Attributes:
        name: Its name in the graph.
        work: `(study[, partition][, again][, on_point][, elsewhere]) -> StageResult`. Its docstring begins
            the asset's description. What it raises as a `TraceError` fails the run with that one sentence.
        group: Group in the UI: the stage.
        records: Tables that it writes, the main one first.
        deps: Names of the assets it reads.
        partitions: How it is partitioned; its function then takes the partition key.
        checks: Checks that its result may carry: name to what they say, in one sentence.
        blocking: Those of them whose failure as an error stops what comes next, in a run and in a sync.
        unfinished: Those of them whose failure says that the work was stopped before its end, by a budget for
            instance: the item is due again at the next sync.
        kinds: Icons in the UI.
        pool: Concurrency pool, for work that takes the whole accelerator.
        by_policy: Whether it takes the accelerator for the policy of `rollouts` alone, and so none where a
            model server plays.
        light: Takes well under a second of one core, so that a process of its own would cost more.
        parts: File names of those of its tables that are not named after its partition.
        together: Whether its tables are of use only together: one that is lost takes the others with it.
        shown_on: Another asset on whose page its result is shown too: the one that it judges.
        door: Whether it is of the diagnosis, which needs no torch, or of the loop; None goes by its group.
    """

    name: str
    work: Callable[..., StageResult]
    group: str
    records: Sequence[type[Record]]
    deps: Sequence[str] = ()
    partitions: PartitionedBy | None = None
    checks: Mapping[str, str] = field(default_factory=dict)
    blocking: Sequence[str] = ()
    unfinished: Sequence[str] = ()
    kinds: Sequence[str] = ("parquet",)
    pool: str | None = None
    by_policy: bool = False
    light: bool = False
    parts: Mapping[type[Record], str] = field(default_factory=dict)
    together: bool = False
    shown_on: str | None = None
    door: Literal["diagnosis", "loop"] | None = None


def asset(
    name: str,
    *,
    group: str,
    records: Sequence[type[Record]],
    deps: Sequence[str] = (),
    partitions: PartitionedBy | None = None,
    checks: Mapping[str, str] = {},
    blocking: Sequence[str] = (),
    unfinished: Sequence[str] = (),
    kinds: Sequence[str] = ("parquet",),
    pool: str | None = None,
    by_policy: bool = False,
    light: bool = False,
    parts: Mapping[type[Record], str] = {},
    together: bool = False,
    shown_on: str | None = None,
    door: Literal["diagnosis", "loop"] | None = None,
) -> Callable[[Work], Work]:
    """Declare a function an asset; for the arguments see `Asset`."""

    def declare(work: Work) -> Work:
        made = Asset(
            name,
            work,
            group,
            records,
            deps,
            partitions,
            checks,
            blocking,
            unfinished,
            kinds,
            pool,
            by_policy,
            light,
            parts,
            together,
            shown_on,
            door,
        )
        work.__asset__ = made  # type: ignore[attr-defined]
        _declared[work.__module__, work.__name__] = made
        return work

    return declare


_declared: dict[tuple[str, str], Asset] = {}
"""What the source declares, by module and name of the function, whatever was put in its place since."""


def as_in_source(assets: Sequence[Asset]) -> bool:
    """Tell whether these are what the source beside this file declares: all of it, and nothing else.

    In a test, or where a program has put a function of its own in the place of an asset's, they are not.
    """
    own = [id(one) for (module, _), one in _declared.items() if module.startswith(f"{__package__}.")]
    return sorted(own) == sorted(map(id, assets))


def asset_of(function: object) -> Asset | None:
    """Return what was declared above a function, None above any other thing."""
    found = getattr(function, "__asset__", None)
    return found if isinstance(found, Asset) else None
