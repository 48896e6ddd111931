"""What every materialization cost, one small file each: appending needs no lock."""

from __future__ import annotations

import os
import resource
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median
from uuid import uuid4

import polars as pl

from trace_assets.records import LedgerEntry, LineageEdge, LineageMember, LineageNode, Record
from trace_assets.records.table import polars_schema
from trace_assets.store.content import text_version
from trace_assets.store.tables import Store


class Spending:
    """What the running work reports beside its time."""

    def __init__(self) -> None:
        self.quantities: dict[tuple[str, str], float] = {}
        self.cost_usd = 0.0

    def add(self, kind: str, quantity: float, unit: str, cost_usd: float = 0.0) -> None:
        """Count a quantity, such as 800 `rollouts` in `episodes`."""
        key = (kind, unit)
        self.quantities[key] = self.quantities.get(key, 0.0) + quantity
        self.cost_usd += cost_usd


def _cpu_seconds() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


@contextmanager
def metered(
    store: Store, *, stage: str, asset: str, partition: str = "", run_id: str = ""
) -> Iterator[Spending]:
    """Measure wall and CPU seconds of the body (its finished child processes included) and record them.

    Nothing is recorded when the body fails: the ledger counts what was materialized.
    """
    spending = Spending()
    wall, cpu = time.monotonic(), _cpu_seconds()
    yield spending
    spending.add("wall", time.monotonic() - wall, "s")
    spending.add("cpu", _cpu_seconds() - cpu, "s")
    record(
        store,
        spending.quantities,
        stage=stage,
        asset=asset,
        partition=partition,
        run_id=run_id,
        cost_usd=spending.cost_usd,
    )


def record(
    store: Store,
    quantities: Mapping[tuple[str, str], float],
    *,
    stage: str,
    asset: str,
    partition: str = "",
    run_id: str = "",
    cost_usd: float = 0.0,
) -> None:
    """Append one entry a quantity; the money is booked on the first."""
    now = datetime.now(UTC)
    entries = [
        LedgerEntry(
            recorded_at=now,
            stage=stage,
            asset=asset,
            partition=partition,
            kind=kind,
            quantity=quantity,
            unit=unit,
            cost_usd=cost_usd if index == 0 else 0.0,
            run_id=run_id,
        )
        for index, ((kind, unit), quantity) in enumerate(quantities.items())
    ]
    name = f"{now:%Y%m%dT%H%M%S.%f}-{os.getpid()}-{uuid4().hex[:6]}"
    store.write(entries, LedgerEntry, name)


# Where lineage is kept: edges that are only ever added, and the versions that are in the store now.


@dataclass(frozen=True, order=True)
class Node:
    """One version of one thing; see `LineageEdge` for the kinds."""

    kind: str
    id: str
    version: str


@dataclass(frozen=True)
class Input:
    """What something was made from; see `LineageEdge`."""

    node: Node
    role: str
    direct: bool = True


@dataclass
class Made:
    """What one materialization made, and from what.

    Attributes:
        inputs: Each thing made, with its inputs.
        members: Rows of `lineage_members`: trajectories and labels that entered.
    """

    inputs: dict[Node, list[Input]] = field(default_factory=dict)
    members: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=polars_schema(LineageMember)))

    def add(self, node: Node, inputs: Iterable[Input]) -> None:
        """Note a thing that was made and its inputs; one that was noted before gets further inputs."""
        self.inputs.setdefault(node, []).extend(inputs)


def row_version(row: Record) -> str:
    """Return the content version of one row, volatile columns left out."""
    return text_version(row.model_dump_json(exclude=set(row.volatile)))


def keep(store: Store, asset: str, partition: str, made: Made) -> None:
    """Store what a materialization made.

    The same edges again keep the time of the first; edges of another content come beside the old ones. What
    the asset's partition held before is no longer in the store.

    Args:
        store: Where to.
        asset: Name of the asset.
        partition: Its partition, empty for one without.
        made: What it made.
    """
    place = f"{asset}.{partition}" if partition else asset
    store.write(
        [LineageNode(kind=node.kind, id=node.id, version=node.version) for node in made.inputs],
        LineageNode,
        place,
    )
    now = datetime.now(UTC)
    edges = [
        LineageEdge(
            kind=node.kind,
            id=node.id,
            version=node.version,
            input_kind=one.node.kind,
            input_id=one.node.id,
            input_version=one.node.version,
            role=one.role,
            direct=one.direct,
            recorded_at=now,
        )
        for node, inputs in made.inputs.items()
        for one in inputs
    ]
    if made.members.height:
        things = sorted(f"{node.kind} {node.id} {node.version}" for node in made.inputs)
        name = f"{asset}-{text_version(*things)}"
        if not store.has(LineageMember, name):
            store.write_frame(made.members.sort(list(LineageMember.key)), LineageMember, name)
    if edges:
        name = f"{asset}-{_fingerprint(edges)}"
        if not store.has(LineageEdge, name):
            store.write(edges, LineageEdge, name)


def _fingerprint(edges: Sequence[LineageEdge]) -> str:
    return text_version(*sorted(row_version(edge) for edge in edges))


# What an item will take, from what it and its like took before: time, rollouts and money.


RECENT = 5
"""Past runs that an estimate looks back on: older ones had other code and settings."""


@dataclass(frozen=True)
class Past:
    """One materialization of the past.

    Attributes:
        seconds: Wall time.
        episodes: Rollouts.
        usd: Money, what was spent on attempts that did not finish included.
    """

    seconds: float
    episodes: float
    usd: float


@dataclass(frozen=True)
class Range:
    """The median of some past figures, and the least and the most of them.

    Sums of ranges are not narrowed: as if all were cheap, or all dear, at once.
    """

    middle: float = 0.0
    low: float = 0.0
    high: float = 0.0

    def __add__(self, other: Range) -> Range:
        return Range(self.middle + other.middle, self.low + other.low, self.high + other.high)


@dataclass(frozen=True)
class Estimate:
    """What one item, or several, will take.

    Attributes:
        seconds: Wall time, one item after the other.
        episodes: Rollouts.
        usd: Money.
        n: Past runs behind the figures; 0 where there is no history, and then the figures say nothing.
        basis: `itself` from runs of the same partition, `others` from other partitions of the asset, `none`.
    """

    seconds: Range = Range()
    episodes: Range = Range()
    usd: Range = Range()
    n: int = 0
    basis: str = "none"


History = Mapping[tuple[str, str], Sequence[Past]]
"""(asset, partition) to its materializations, the oldest first."""


def history(entries: Iterable[LedgerEntry]) -> History:
    """Put ledger entries together into past materializations.

    Money that was booked beside a materialization (by an account of model calls, also for attempts that were
    killed) counts for the next materialization of the same item that finished, or else for its last one.

    Args:
        entries: Rows of the ledger, in any order.
    """
    booked: dict[tuple[str, str], list[LedgerEntry]] = defaultdict(list)
    for entry in entries:
        booked[entry.asset, entry.partition].append(entry)
    return {name: runs for name, rows in booked.items() if (runs := _runs(rows))}


def _runs(rows: Iterable[LedgerEntry]) -> list[Past]:
    found: list[Past] = []
    usd = 0.0
    by_time: dict[object, list[LedgerEntry]] = defaultdict(list)
    for row in rows:
        by_time[row.recorded_at].append(row)
    for _, together in sorted(by_time.items(), key=lambda pair: str(pair[0])):
        usd += sum(row.cost_usd for row in together)
        kinds: dict[str, float] = defaultdict(float)
        for row in together:
            kinds[row.kind] += row.quantity
        if "wall" in kinds:
            found.append(Past(kinds["wall"], kinds["rollouts"], usd))
            usd = 0.0
    if found and usd:
        last = found[-1]
        found[-1] = Past(last.seconds, last.episodes, last.usd + usd)
    return found


def estimate(past: History, asset: str, partition: str = "") -> Estimate:
    """Estimate one item from its own past runs, else from those of the asset's other partitions.

    >>> past = {("adapter", "a"): [Past(60.0, 100.0, 0.0), Past(40.0, 100.0, 0.0)]}
    >>> estimate(past, "adapter", "a").seconds
    Range(middle=50.0, low=40.0, high=60.0)
    >>> estimate(past, "adapter", "b").basis, estimate(past, "routing").n
    ('others', 0)
    """
    own = past.get((asset, partition), ())[-RECENT:]
    if own:
        return _of(own, "itself")
    others = [run for (name, _), runs in past.items() if name == asset for run in runs[-RECENT:]]
    return _of(others, "others") if others else Estimate()


def total(parts: Iterable[Estimate]) -> Estimate:
    """Return the sum of several estimates; those without history add nothing, and are to be told apart."""
    whole = Estimate()
    for part in parts:
        whole = Estimate(
            whole.seconds + part.seconds,
            whole.episodes + part.episodes,
            whole.usd + part.usd,
            whole.n + part.n,
            "sum",
        )
    return whole


def _of(runs: Sequence[Past], basis: str) -> Estimate:
    # A run that found all its episodes finished says nothing of what it takes to play them.
    runs = [run for run in runs if run.episodes] or runs
    return Estimate(
        _range([run.seconds for run in runs]),
        _range([run.episodes for run in runs]),
        _range([run.usd for run in runs]),
        len(runs),
        basis,
    )


def _range(values: Sequence[float]) -> Range:
    return Range(median(values), min(values), max(values))
