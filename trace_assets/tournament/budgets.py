"""The same worlds at several budgets: how pass rates, and what lies between them, move with the rollouts.

Every budget is a study of its own, its schedule included, never a checkpoint of a longer one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from pathlib import Path
from typing import Any

import polars as pl

from trace_assets.errors import InputError
from trace_assets.tournament.plan import Comparison, Plan, World
from trace_assets.tournament.results import COSTS, RESULTS, Cost, TaskResult, read_rows
from trace_assets.tournament.score import TAUGHT, Score, arm_scores, by_world, score
from trace_assets.tournament.worlds import Across, across


@dataclass(frozen=True)
class Budget:
    """One study.

    Attributes:
        folder: Where it lies.
        rollouts: Training rollouts of all adapters together, mean over the shared worlds.
        rates: Arm to its pass rate over the shared worlds, of the two arms that are compared.
        difference: Of the two, over the shared worlds.
    """

    folder: Path
    rollouts: float
    rates: Mapping[str, Across]
    difference: Across


@dataclass(frozen=True)
class Curve:
    """One comparison over budgets.

    Attributes:
        comparison: What against what.
        budgets: By rollouts, the smallest first.
        worlds: That all studies share, by their seeds.
        area: Mean difference over log rollouts, between the smallest and the largest budget, paired by world.
        gain: What the arm gains from the smallest budget to the largest more than its rival does.
    """

    comparison: Comparison
    budgets: Sequence[Budget]
    worlds: int
    area: Across
    gain: Across


def curves(folders: Sequence[Path]) -> list[Curve]:
    """Return each primary comparison that all studies share, over their budgets.

    Args:
        folders: Of finished studies that differ in how much is trained.

    Raises:
        InputError: A study is not finished, two have the same budget, they differ in more than their
            training, or share no world or comparison.
    """
    scores = [score(folder) for folder in folders]
    for folder, one in zip(folders, scores, strict=True):
        if not one.is_due:
            raise InputError(
                f"{folder} is not finished ({len(one.finished)} of {len(one.plan.worlds)} worlds): "
                "no figure of a budget is shown before."
            )
    others = {json.dumps(_untrained(one.plan), sort_keys=True) for one in scores}
    if len(others) > 1:
        raise InputError("these studies differ in more than `training.*`, so their worlds are not the same.")
    shared = _shared(scores)
    if not shared:
        raise InputError("these studies share no world: plan them with the same seeds.")
    numbers = [{_seeds(world): world.number for world in one.plan.worlds} for one in scores]
    keys = sorted(shared)
    rows = [_of(folder, RESULTS, TaskResult, own, keys) for folder, own in zip(folders, numbers, strict=True)]
    costs = [_of(folder, COSTS, Cost, own, keys) for folder, own in zip(folders, numbers, strict=True)]
    rollouts = [_trained(own, len(keys)) for own in costs]
    order = sorted(range(len(folders)), key=lambda n: rollouts[n])
    spent = [rollouts[n] for n in order]
    if any(small <= 0 or large <= small for small, large in pairwise(spent)):
        raise InputError(
            f"these studies train on {', '.join(f'{n:,.0f}' for n in spent)} rollouts: no curve."
        )
    common = [one for one in scores[0].plan.primary if all(one in other.plan.primary for other in scores)]
    found = []
    for compared in common:
        own = [by_world(rows[n], compared) for n in order]
        if any(len(values) < len(keys) for values in own):
            continue  # an arm that was not played in a world has no rate there
        points = [
            Budget(
                folders[n],
                rollouts[n],
                {score.arm: score.rate for score in arm_scores(rows[n], range(len(keys)))},
                across(list(values.values())),
            )
            for n, values in zip(order, own, strict=True)
        ]
        worlds = range(1, len(keys) + 1)
        areas = [mean_over_log(spent, [values[world] for values in own]) for world in worlds]
        gains = [own[-1][world] - own[0][world] for world in worlds]
        found.append(Curve(compared, points, len(keys), across(areas), across(gains)))
    if not found:
        raise InputError("these studies share no primary comparison that was played in every shared world.")
    return found


def mean_over_log(rollouts: Sequence[float], values: Sequence[float]) -> float:
    """Return the mean of a curve over log rollouts, by the trapezoid rule.

    Args:
        rollouts: Ascending, two at least.
        values: At each.

    >>> mean_over_log([100, 1000, 10000], [0.0, 0.2, 0.4])
    0.2
    >>> round(mean_over_log([1, 10, 1000], [0.0, 0.0, 0.3]), 3)  # the wide step weighs as much as it is wide
    0.1
    """
    steps = [log(b / a) for a, b in pairwise(rollouts)]
    means = [(a + b) / 2 for a, b in pairwise(values)]
    return sum(step * mean for step, mean in zip(steps, means, strict=True)) / sum(steps)


def _untrained(plan: Plan) -> dict[str, Any]:
    return {name: value for name, value in plan.settings.items() if not name.startswith("training.")}


def _seeds(world: World) -> tuple[int, int, int]:
    return world.base_seed, world.target_seed, world.training_seed


def _shared(scores: Sequence[Score]) -> set[tuple[int, int, int]]:
    def played(plan: Plan, finished: Sequence[int]) -> set[tuple[int, int, int]]:
        return {_seeds(world) for world in plan.worlds if world.number in finished}

    return set.intersection(*(played(one.plan, one.finished) for one in scores))


def _of(
    folder: Path,
    name: str,
    record: type[TaskResult] | type[Cost],
    numbers: Mapping[tuple[int, int, int], int],
    keys: Sequence[tuple[int, int, int]],
) -> pl.DataFrame:
    """Return the rows of the shared worlds, numbered from 1 alike in every study."""
    new = {numbers[key]: place for place, key in enumerate(keys, start=1)}
    rows = read_rows(folder, name, record).filter(pl.col("world").is_in(list(new)))
    return rows.with_columns(world=pl.col("world").replace_strict(new, return_dtype=pl.Int64))


def _trained(costs: pl.DataFrame, worlds: int) -> float:
    own = costs.filter((pl.col("asset") == TAUGHT) & (pl.col("kind") == "rollouts"))
    return float(own["quantity"].sum()) / worlds
