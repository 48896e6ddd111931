"""Other groups in the place of those without variance, paid from the run's own rollouts."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trace_assets.records import Task
from trace_assets.training.episodes import Row
from trace_assets.training.plan import Plan


@dataclass(frozen=True)
class Redrawn:
    """An iteration's batch after dead groups were drawn anew.

    Attributes:
        rows: Group after group, as many as before; a dead group stays where no live one was found for it.
        drawn: Groups that were played besides.
        live: Share of the groups in `rows` that have variance.
    """

    rows: list[Row]
    drawn: int
    live: float


def is_dead(rows: Sequence[Row]) -> bool:
    """Say whether a group carries no gradient: its judged episodes have one reward, or fewer than two are."""
    return len({row.reward for row in rows if row.reward is not None}) < 2


def redraw(
    rows: Sequence[Row],
    plan: Plan,
    play: Callable[[Sequence[Task], str], list[Row]],
    *,
    rounds: int,
    affordable: int,
    seed: str,
) -> Redrawn:
    """Play other tasks until every group carries signal, the rounds are over or the rollouts are spent.

    DAPO's dynamic sampling (Yu et al. 2025, arXiv 2503.14476, section 3.2), except that it is bounded.

    Args:
        rows: What was drawn first, group after group.
        plan: Group size, and the pool to draw from, evenly and by the seed.
        play: Plays tasks, each a group of its own already repeated, under a batch's name.
        rounds: How often the groups still dead are drawn anew.
        affordable: Groups that may be played besides.
        seed: Decides which tasks are drawn; another one each iteration.
    """
    size = plan.group_size
    groups = [list(rows[start : start + size]) for start in range(0, len(rows), size)]
    order, drawn = random.Random(seed), 0
    for number in range(1, rounds + 1):
        dead = [index for index, group in enumerate(groups) if is_dead(group)]
        wanted = min(len(dead), affordable - drawn)
        if wanted <= 0:
            break
        tasks = order.choices(plan.pool, k=wanted)
        found = play([task for task in tasks for _ in range(size)], f"redraw {number}")
        drawn += wanted
        fresh = [found[start : start + size] for start in range(0, len(found), size)]
        for index, group in zip(dead, (one for one in fresh if not is_dead(one)), strict=False):
            groups[index] = group
    live = sum(not is_dead(group) for group in groups) / len(groups)
    return Redrawn([row for group in groups for row in group], drawn, live)
