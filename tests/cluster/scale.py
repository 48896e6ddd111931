"""How a study grows with its nodes, simulated: two tables of docs/cluster.md, printed when it is run.

A batch's episodes are dealt out in shards to workers of uneven speed: small ones pay their beginning often,
large ones leave workers idle at the end. Adapters are trained one on a node, longest first, while nodes are
taken away and come back: what a training loses is what it did since its last checkpoint.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, quantiles

EPISODES = 323_200
"""202 arms, 400 tasks, 4 trials."""
EPISODES_A_SECOND = 1.5
"""Of one worker."""
SHARD_SECONDS = 3.0
"""What a shard takes before its first episode."""
SHARDS_A_SECOND = 500.0
"""That one driver hands out."""
UNEVEN = 0.25
"""Coefficient of variation of a shard's time."""

WORKERS = (16, 64, 256, 1000)
SIZES = (16, 64, 256, 1024)


def shard_efficiency(workers: int, size: int, seed: int = 0) -> float:
    """Return the ideal time by the simulated one: 1 where no worker ever waited."""
    draw = random.Random(seed)
    shape = 1 / UNEVEN**2
    free = [0.0] * workers
    left, number = EPISODES, 0
    while left:
        episodes = min(size, left)
        left -= episodes
        began = max(free[0], number / SHARDS_A_SECOND)
        number += 1
        played = episodes / EPISODES_A_SECOND * draw.gammavariate(shape, 1 / shape)
        heapq.heapreplace(free, began + SHARD_SECONDS + played)
    return EPISODES / EPISODES_A_SECOND / workers / max(free)


@dataclass(frozen=True)
class Training:
    """Adapters to train, and the nodes that they are trained on.

    Attributes:
        nodes: How many.
        taken: How often an hour a node is taken away.
        checkpoint: Hours between two checkpoints.
        adapters: How many, one a capability.
        hours: What one takes, on the average.
        spread: Standard deviation of that, as a share.
        again: Hours that taking up a training costs.
        away: Hours until a taken node is back.
    """

    nodes: int
    taken: float = 0.0
    checkpoint: float = 8 / 60
    adapters: int = 200
    hours: float = 5.0
    spread: float = 0.3
    again: float = 0.1
    away: float = 0.25


@dataclass(frozen=True)
class Made:
    """What one draw came to: hours until all were trained, and node hours that were lost."""

    hours: float
    lost: float
    work: float


def train(case: Training, seed: int) -> Made:
    """Train all adapters once."""
    draw = random.Random(seed)
    work = [max(0.2, draw.gauss(1.0, case.spread)) * case.hours for _ in range(case.adapters)]
    waiting = [(-hours, False) for hours in work]
    heapq.heapify(waiting)
    events: list[tuple[float, int, tuple[float, bool] | None]] = []  # when, order, what is due again
    idle, under_way, now, lost, number = case.nodes, 0, 0.0, 0.0, 0
    while waiting or under_way:
        while idle and waiting:
            idle -= 1
            hours, begun = heapq.heappop(waiting)
            needed = -hours + (case.again if begun else 0.0)
            until = draw.expovariate(case.taken) if case.taken else math.inf
            number += 1
            under_way += 1
            if until >= needed:
                heapq.heappush(events, (now + needed, number, None))
                continue
            done = max(0.0, until - (case.again if begun else 0.0))
            kept = done // case.checkpoint * case.checkpoint if math.isfinite(case.checkpoint) else 0.0
            lost += until - kept
            heapq.heappush(events, (now + until, number, (hours + kept, True)))
        now, number_, again = heapq.heappop(events)
        if number_ < 0:  # a node is back
            idle += 1
            continue
        under_way -= 1
        if again is None:
            idle += 1
        else:
            heapq.heappush(waiting, again)
            heapq.heappush(events, (now + case.away, -number_, None))
    return Made(now, lost, sum(work))


CASES: Sequence[Training] = (
    Training(8),
    Training(64),
    Training(64, 0.1),
    Training(64, 0.1, 1.0),
    Training(64, 0.1, math.inf),
    Training(200),
)
DRAWS = 100


def shard_table() -> Iterator[str]:
    """Give the lines of the table of shards."""
    yield "| workers | " + " | ".join(f"{size:,} a shard" for size in SIZES) + " |"
    yield "|--:|" + "--:|" * len(SIZES)
    for workers in WORKERS:
        found = [f"{shard_efficiency(workers, size):.2f}" for size in SIZES]
        yield f"| {workers:,} | " + " | ".join(found) + " |"


def training_table() -> Iterator[str]:
    """Give the lines of the table of trainings."""
    yield "| nodes | taken, an hour | checkpoint every | hours, mean [5, 95 %] | efficiency | lost hours |"
    yield "|--:|--:|--:|---|--:|--:|"
    for case in CASES:
        made = [train(case, seed) for seed in range(DRAWS)]
        hours = sorted(one.hours for one in made)
        cuts = quantiles(hours, n=20, method="inclusive")
        efficiency = fmean(one.work / case.nodes / one.hours for one in made)
        every = (
            ""
            if not case.taken
            else "never"
            if math.isinf(case.checkpoint)
            else f"{case.checkpoint * 60:.0f} min"
        )
        yield (
            f"| {case.nodes} | {case.taken:g} | {every} | {fmean(hours):.1f} [{cuts[0]:.1f}, {cuts[-1]:.1f}] "
            f"| {efficiency:.2f} | {fmean(one.lost for one in made):.0f} |"
        )


if __name__ == "__main__":
    print("\n".join([*shard_table(), "", *training_table()]))
