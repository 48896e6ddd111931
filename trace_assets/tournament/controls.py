"""Arms read off the episodes of others: what validation released, and adapters chosen without knowledge."""

from __future__ import annotations

import random
from collections.abc import Sequence

from trace_assets.evaluation.arms import ROUTED, choice_of, compose_rows
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
