"""What an item will take, from what it and its like took before: time, rollouts and money."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from trace_assets.records import LedgerEntry

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
