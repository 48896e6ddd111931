"""Scripted demonstrations for the tiny agent: right in most skills, wrong on purpose in three.

The agent is trained from scratch on these, so it honestly lacks what they mostly get wrong. A deficit is
always the same mistake, and the right way occurs too: a policy that never does the right thing offers
reinforcement learning nothing to amplify.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from itertools import combinations, islice, product
from math import sqrt

from trace_assets.records import Message, Record, ToolCall
from trace_assets.targets.embedded.desk import (
    OUTCOME_TEXT,
    Resolution,
    Skill,
    Wish,
    look_up,
    resolutions,
    script,
    solve,
)
from trace_assets.targets.embedded.generator import CONDITIONED, HINTS, MIX, DeskName, Drawn, mix_of, stream
from trace_assets.targets.embedded.target import answer

WRONG_SHARE: dict[Skill, float] = {"cancel": 0.6, "multi": 0.56, "window": 0.62}
"""Share of a skill's demonstrations that show its mistake; skills that are not named are taught well."""

DEMONSTRATION_MIX: dict[Skill, int] = {
    "cancel": 3,
    "multi": 6,
    "window": 3,
    "address": 2,
    "exchange": 2,
    "status": 2,
}
"""More of the longest conversations than among the tasks: the second of two numbers is learned last."""

WRONG_SHARES: Mapping[DeskName, Mapping[Skill, float]] = {
    "a": WRONG_SHARE,
    "b": {"cancel": 0.6, "multi": 0.6, "window": 0.62},
    "c": {"window": 0.45, "return": 0.45},
    "d": {"sale": 0.62},
}
"""Wrong shares by desk. A `pair` has those of all that it combines, each drawn apart: `multi`'s once, and
that of either wish."""

WRONG_WHERE_ALLOWED: Mapping[DeskName, float] = {"a": 0.0, "b": 0.0, "c": 0.2, "d": 0.0}
"""Share of demonstrations of a rule's skill that refuse what the rule allows. Desk `c` has mistakes both
ways: of a policy that never refuses, nothing shows that two rules pull apart."""

RIGHT_POOLS: Mapping[DeskName, int] = {"a": 0, "b": 0, "c": 20, "d": 0}
"""Pools of demonstrations, the first ones, that are all right. Two opposite rules are not learned from mostly
wrong ones: the agent of desk `c` learns to tell them apart first, and is shown its mistakes after that."""

DEMONSTRATION_MIXES: Mapping[DeskName, Mapping[Skill, int]] = {
    "a": DEMONSTRATION_MIX,
    "b": {"cancel": 3, "multi": 4, "window": 3, "pair": 6, "address": 2, "exchange": 2, "status": 2},
    "c": {"window": 6, "return": 6, "address": 2, "exchange": 2, "status": 2},
    "d": {"sale": 8, "address": 2, "exchange": 2, "status": 2},
}
"""Demonstrations of each skill in a cycle, by desk. `b` shows single skills too, of which it sets no task."""

HINTED = 0.25
"""Share of the demonstrations of lacking skills that hold it; all these are right."""

TAUGHT: tuple[Skill, ...] = tuple(skill for skill in MIX if skill not in WRONG_SHARE)
"""Skills that every demonstration gets right."""


class Demonstration(Record):
    """One conversation to learn from: the customer's text, then assistant and tool messages."""

    skill: Skill
    flawed: bool
    messages: tuple[Message, ...]


def mistaken(drawn: Drawn, refuses: bool = False) -> list[Message]:
    """Return what an agent with the deficit of the case's skill does.

    `cancel`: cancels without looking. `multi`: replies after the first request. `window`, `return` and
    `sale`: refunds what the rule forbids; where it also `refuses`, it does not refund what the rule allows.

    Args:
        drawn: The case.
        refuses: Whether the mistake is made where the rule allows what is asked, too.
    """
    todo = resolutions(drawn.case())
    if drawn.skill == "multi":
        return solve(drawn.case().model_copy(update={"requests": drawn.requests[:1]}))
    if drawn.skill in ("cancel", "window", "return", "sale"):
        return script(*_answered(todo[0], mistaken=True, refuses=refuses))
    raise ValueError(f"no mistake is known for the skill '{drawn.skill}'")


def _answered(resolution: Resolution, mistaken: bool, refuses: bool = False) -> tuple[list[ToolCall], str]:
    """Return the calls for one request and the sentence about it, right or with the mistake of its wish.

    Args:
        resolution: What is asked, and what it calls for.
        mistaken: Whether the mistake is made.
        refuses: Whether it is made where the rule allows what is asked, too: then that is refused.
    """
    request = resolution.request
    look = look_up(request.order)
    if not mistaken:
        return [look] + ([resolution.action] if resolution.action else []), resolution.sentence()
    if request.wish == "cancel":
        return [look.model_copy(update={"name": "cancel_order"})], OUTCOME_TEXT["cancelled"]
    if refuses and not resolution.transferred:
        reason = "window_closed" if request.wish == "window" else "other"
        refuse = {"name": "transfer", "arguments": {"order": request.order, "reason": reason}}
        return [look, look.model_copy(update=refuse)], OUTCOME_TEXT["transferred"]
    refund = {"name": "refund_item", "arguments": {"order": request.order, "item": request.item}}
    return [look, look.model_copy(update=refund)], OUTCOME_TEXT["refunded"]


def combined(drawn: Drawn, stops: bool, wrong: tuple[bool, ...]) -> list[Message]:
    """Return what an agent does with a `pair`, given which of its mistakes it makes.

    Args:
        drawn: The case.
        stops: It replies after the first request.
        wrong: For each request: whether it makes the mistake of that wish.
    """
    todo = resolutions(drawn.case())[: 1 if stops else None]
    answers = [_answered(one, mistaken=slip) for one, slip in zip(todo, wrong, strict=False)]
    return script([call for calls, _ in answers for call in calls], " ".join(words for _, words in answers))


def _play(drawn: Drawn, turns: list[Message]) -> tuple[Message, ...]:
    desk = drawn.case().desk()
    messages = [Message(role="user", content=drawn.text)]
    for turn in turns:
        messages.append(turn)
        messages += [answer(desk, call) for call in turn.tool_calls]
    return tuple(messages)


def demonstrations(
    seed: int, pool: int, count: int, desk: DeskName = "a", hints: bool = False
) -> Iterator[Demonstration]:
    """Draw one pool of demonstrations.

    Args:
        seed: Equal seeds give equal pools.
        pool: Number of the pool: pools are drawn independently, so training can resume at any of them.
        count: How many.
        desk: Which desk's agent learns from them.
        hints: Whether some end in advice that is followed.
    """
    rng, share = random.Random(f"{seed}/{pool}/mistakes"), WRONG_SHARES[desk]
    if 0 <= pool < RIGHT_POOLS[desk]:
        share = {}
    advised = random.Random(f"{seed}/{pool}/hints")
    for drawn in islice(stream(f"{seed}/{pool}", "demonstrations", DEMONSTRATION_MIXES[desk]), count):
        if hints and drawn.skill in HINTS and advised.random() < HINTED:
            told = drawn.model_copy(update={"text": f"{drawn.text} {HINTS[drawn.skill]}"})
            yield Demonstration(skill=drawn.skill, flawed=False, messages=_play(told, solve(told.case())))
        elif drawn.skill == "pair":
            stops = rng.random() < share["multi"]
            wrong = tuple(rng.random() < share[request.wish] for request in drawn.requests)
            flawed, turns = stops or any(wrong), combined(drawn, stops, wrong)
            yield Demonstration(skill=drawn.skill, flawed=flawed, messages=_play(drawn, turns))
        else:
            refuses = bool(share) and _refuses(drawn, desk)
            wrong_share = WRONG_WHERE_ALLOWED[desk] if refuses else share.get(drawn.skill, 0.0)
            flawed = rng.random() < wrong_share
            turns = mistaken(drawn, refuses) if flawed else solve(drawn.case())
            yield Demonstration(skill=drawn.skill, flawed=flawed, messages=_play(drawn, turns))


def _refuses(drawn: Drawn, desk: DeskName) -> bool:
    """Whether the mistake of a case is to refuse what the rule allows."""
    ruled = WRONG_WHERE_ALLOWED[desk] > 0 and drawn.skill in WRONG_SHARES[desk]
    return ruled and not resolutions(drawn.case())[0].transferred


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
