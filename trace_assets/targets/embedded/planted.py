"""What is planted at a desk, by counting: how often its demonstrations pass, by skill, task and group.

This is the policy that the tiny agent imitates, not the agent: where it falls short of it, it has not learned
the conversation. Nothing is drawn and nothing is played, every case of wishes and conditions counts with its
weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations, product
from math import sqrt

from trace_assets.records import Record
from trace_assets.targets.embedded.demonstrations import WRONG_SHARES, WRONG_WHERE_ALLOWED
from trace_assets.targets.embedded.desk import Skill, Wish
from trace_assets.targets.embedded.generator import CONDITIONED, DeskName, mix_of

Cells = list[tuple[float, float]]
"""Weight of a kind of task, and the share of demonstrations that pass it."""


class PlantedTruth(Record):
    """What the demonstrations of a desk get right.

    Attributes:
        desk: Which desk.
        skills: Lacking skill to q, the pass rate of demonstrations of it alone.
        rates: Tag of a task to the pass rate of demonstrations of such tasks.
        p0: Pass rate over the desk's mix of tasks.
        dead_groups: Share of groups of equal tasks in which all rollouts pass, or all fail: they teach
            nothing where success alone is rewarded. The desk's own reward is graded, which leaves fewer.
        routed: Highest pass rate that one perfect adapter a task can give: it lifts one skill's q to 1.
        cosines: Two lacking skills, such as `cancel~window`, to the cosine of their policy gradients where
            the agent tells states apart and not what is asked: -1 where their rules are opposite, 0 where
            they rest on different things. An agent that tells both apart has cosines nearer to 0.
    """

    desk: DeskName
    skills: dict[str, float]
    rates: dict[str, float]
    p0: float
    dead_groups: float
    routed: float
    cosines: dict[str, float]


LACKING: Mapping[DeskName, tuple[Skill, ...]] = {
    "a": ("cancel", "multi", "window"),
    "b": ("cancel", "multi", "window"),
    "c": ("return", "window"),
    "d": ("sale",),
}
"""Skills that the demonstrations of a desk get wrong."""


def planted_truth(desk: DeskName, group_size: int = 8, waste: float | None = None) -> PlantedTruth:
    """Count what the demonstrations of a desk get right.

    Args:
        desk: Which desk.
        group_size: Rollouts a group.
        waste: Share of the tasks in which nothing is lacking; None takes the desk's own.

    >>> a, b = planted_truth("a"), planted_truth("b")
    >>> {skill: round(q, 2) for skill, q in a.skills.items()}, round(a.p0, 4), round(a.dead_groups, 3)
    ({'cancel': 0.4, 'multi': 0.44, 'window': 0.69}, 0.6733, 0.453)
    >>> {skill: round(q, 2) for skill, q in b.skills.items()}, round(b.rates["pair"], 4), round(b.p0, 4)
    ({'cancel': 0.4, 'multi': 0.4, 'window': 0.69}, 0.1188, 0.4125)
    >>> round(a.routed, 2), round(b.routed, 2)
    (1.0, 0.53)
    >>> c, d = planted_truth("c"), planted_truth("d")
    >>> {skill: round(q, 2) for skill, q in (c.skills | d.skills).items()}, round(c.p0, 3), round(d.p0, 3)
    ({'return': 0.68, 'window': 0.68, 'sale': 0.69}, 0.783, 0.793)
    >>> {pair: round(value, 2) for pair, value in c.cosines.items()}, b.cosines["cancel~window"]
    ({'return~window': -0.91}, 0.0)
    """
    mix = mix_of(desk, waste)
    total = sum(mix.values())
    cells: dict[Skill, Cells] = {skill: _cells(desk, skill) for skill in mix}
    every = [(mix[skill] / total * weight, rate) for skill, own in cells.items() for weight, rate in own]
    lacking = LACKING[desk]
    return PlantedTruth(
        desk=desk,
        skills={skill: _mean(_cells(desk, skill)) for skill in lacking},
        rates={skill: _mean(own) for skill, own in cells.items()},
        p0=_mean(every),
        dead_groups=sum(weight * (p**group_size + (1 - p) ** group_size) for weight, p in every),
        routed=sum(
            mix[skill] / total * max(_mean(_cells(desk, skill, taught=one)) for one in lacking)
            for skill in mix
        ),
        cosines={f"{one}~{other}": _cosine(desk, one, other) for one, other in combinations(lacking, 2)},
    )


def _gradient(desk: DeskName, skill: Skill) -> dict[str, float]:
    """Return what a step for a skill does to the odds of refusing, by what the look-up shows.

    A case that goes wrong as often as it goes right says most: its share is q (1 - q). `multi`, and what is
    done before any look-up, act elsewhere.
    """
    if skill == "multi":
        return {"goes on": _right(desk, "multi", None) * (1 - _right(desk, "multi", None))}
    if skill == "cancel":  # its mistake is made before anything is shown
        q = _right(desk, "cancel", None)
        return {"looks up": q * (1 - q)}
    allows, forbids = ("closed", "open") if skill == "return" else ("open", "closed")
    if skill == "sale":
        allows, forbids = "other items", "items of the final sale"
    (_, kept), (_, refused) = _cells(desk, skill)
    return {allows: -kept * (1 - kept), forbids: refused * (1 - refused)}


def _cosine(desk: DeskName, one: Skill, other: Skill) -> float:
    a, b = _gradient(desk, one), _gradient(desk, other)
    size = sqrt(sum(x * x for x in a.values()) * sum(x * x for x in b.values()))
    return sum(x * b.get(state, 0.0) for state, x in a.items()) / size + 0.0 if size else 0.0


def _mean(cells: Cells) -> float:
    return sum(weight * rate for weight, rate in cells)


def _right(desk: DeskName, skill: Skill, taught: Skill | None) -> float:
    return 1.0 if skill == taught else 1.0 - WRONG_SHARES[desk].get(skill, 0.0)


def _cells(desk: DeskName, skill: Skill, taught: Skill | None = None) -> Cells:
    """Return the kinds of tasks of a skill, with one other skill taught to perfection."""

    def passes(wish: Wish, allowed: bool) -> float:
        # A refund that nobody checked is right where the window is open; an order must be looked up always.
        if wish in ("window", "return", "sale") and allowed:
            return 1.0 if wish == taught else 1.0 - WRONG_WHERE_ALLOWED[desk]
        return _right(desk, wish, taught)

    cases = (True, False)
    if skill == "pair":
        kinds = list(product(CONDITIONED, cases, CONDITIONED, cases))
        goes_on = _right(desk, "multi", taught)
        return [(1 / len(kinds), goes_on * passes(*kind[:2]) * passes(*kind[2:])) for kind in kinds]
    if skill == "multi":
        return [(1.0, _right(desk, "multi", taught))]
    return [(0.5, passes(skill, allowed)) for allowed in cases]
