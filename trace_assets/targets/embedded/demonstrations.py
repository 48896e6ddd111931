"""Scripted demonstrations for the tiny agent: right in most skills, wrong on purpose in three.

The agent is trained from scratch on these, so it honestly lacks what they mostly get wrong. A deficit is
always the same mistake, and the right way occurs too: a policy that never does the right thing offers
reinforcement learning nothing to amplify.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice

from trace_assets.records import Message, Record
from trace_assets.targets.embedded.desk import OUTCOME_TEXT, Skill, look_up, resolutions, script, solve
from trace_assets.targets.embedded.generator import MIX, Drawn, stream
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

TAUGHT: tuple[Skill, ...] = tuple(skill for skill in MIX if skill not in WRONG_SHARE)
"""Skills that every demonstration gets right."""


class Demonstration(Record):
    """One conversation to learn from: the customer's text, then assistant and tool messages."""

    skill: Skill
    flawed: bool
    messages: tuple[Message, ...]


def mistaken(drawn: Drawn) -> list[Message]:
    """Return what an agent with the deficit of the case's skill does.

    `cancel`: cancels without looking. `multi`: replies after the first request. `window`: refunds
    whatever the return window says.
    """
    todo = resolutions(drawn.case())
    first = todo[0].request
    if drawn.skill == "multi":
        return solve(drawn.case().model_copy(update={"requests": drawn.requests[:1]}))
    if drawn.skill == "cancel":
        call = look_up(first.order).model_copy(update={"name": "cancel_order"})
        return script([call], OUTCOME_TEXT["cancelled"])
    if drawn.skill == "window":
        look = look_up(first.order)
        refund = look.model_copy(
            update={"name": "refund_item", "arguments": {"order": first.order, "item": first.item}}
        )
        return script([look, refund], OUTCOME_TEXT["refunded"])
    raise ValueError(f"no mistake is known for the skill '{drawn.skill}'")


def _play(drawn: Drawn, turns: list[Message]) -> tuple[Message, ...]:
    desk = drawn.case().desk()
    messages = [Message(role="user", content=drawn.text)]
    for turn in turns:
        messages.append(turn)
        messages += [answer(desk, call) for call in turn.tool_calls]
    return tuple(messages)


def demonstrations(seed: int, pool: int, count: int) -> Iterator[Demonstration]:
    """Draw one pool of demonstrations.

    Args:
        seed: Equal seeds give equal pools.
        pool: Number of the pool: pools are drawn independently, so training can resume at any of them.
        count: How many.
    """
    rng = random.Random(f"{seed}/{pool}/mistakes")
    for drawn in islice(stream(f"{seed}/{pool}", "demonstrations", DEMONSTRATION_MIX), count):
        flawed = rng.random() < WRONG_SHARE.get(drawn.skill, 0.0)
        turns = mistaken(drawn) if flawed else solve(drawn.case())
        yield Demonstration(skill=drawn.skill, flawed=flawed, messages=_play(drawn, turns))
