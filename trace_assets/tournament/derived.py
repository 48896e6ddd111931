"""Arms that are not played: read off the episodes of others, or another arm by definition.

Read off are what validation released, and adapters chosen without knowledge. Where fewer than two adapters
are taught, or composition was refused, a router has no set to choose: the composed agent is the routed one,
and where nothing was taught every such agent is the base model. A world is not dropped for that, since how
many skills were taught is a result of the method: only those worlds would count in which it did well.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence

import polars as pl

from trace_assets.evaluation.arms import (
    BASE,
    COMPOSED,
    JOINT,
    ORACLE_COMPOSED,
    ORACLE_ROUTED,
    ROUTED,
    SEQUENTIAL,
    SUM,
    TOGETHER,
    choice_of,
    compose_rows,
)
from trace_assets.records import NO_ADAPTER, Evaluation
from trace_assets.routing.sets import members_of

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


def _definition(arm: str, played: Collection[str], trained: bool) -> str:
    """Return what an arm is where it was not played; empty where that is not clear."""
    adapters = [one for one in played if len(_members(one)) == 1]
    if (
        not adapters
        and not trained
        and arm
        in (
            ROUTED,
            ORACLE_ROUTED,
            RANDOM_ROUTING,
            SWAPPED_ROUTING,
            JOINT,
            SEQUENTIAL,
            TOGETHER,
            SUM,
            RELEASED,
        )
    ):
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
