"""Scripted demonstrations for the tiny agent: right in most skills, wrong on purpose in three.

The agent is trained from scratch on these, so it honestly lacks what they mostly get wrong. A deficit is
always the same mistake, and the right way occurs too: a policy that never does the right thing offers
reinforcement learning nothing to amplify.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from itertools import islice

from trace_assets.records import Message, Record, ToolCall
from trace_assets.targets.embedded.advice import HINTS
from trace_assets.targets.embedded.desk import (
    OUTCOME_TEXT,
    Resolution,
    Skill,
    look_up,
    resolutions,
    script,
    solve,
)
from trace_assets.targets.embedded.generator import MIX, DeskName, Drawn, stream
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
