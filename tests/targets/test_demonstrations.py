"""Demonstrations: wrong as often as planned, always in the same way, right otherwise."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections import defaultdict
from typing import get_args

import pytest

from tests.quick import one_of_each
from trace_assets.records import Message, Verdict
from trace_assets.settings import Targets
from trace_assets.targets.embedded.demonstrations import (
    DEMONSTRATION_MIX,
    DEMONSTRATION_MIXES,
    RIGHT_POOLS,
    TAUGHT,
    WRONG_SHARE,
    WRONG_SHARES,
    Demonstration,
    demonstrations,
    mistaken,
    planted_truth,
)
from trace_assets.targets.embedded.generator import DeskName, stream
from trace_assets.targets.embedded.target import EmbeddedTarget, judge


def test_skills_that_are_taught_are_always_right_and_the_others_as_often_as_planned() -> None:
    drawn = list(demonstrations(0, 0, 1500))
    flawed: dict[str, list[bool]] = defaultdict(list)
    for item in drawn:
        flawed[item.skill].append(item.flawed)
    for skill in TAUGHT:
        assert not any(flawed[skill])
    for skill, share in WRONG_SHARE.items():
        assert 0.55 <= share <= 0.65
        assert abs(sum(flawed[skill]) / len(flawed[skill]) - share) < 0.08


def test_right_ones_succeed_and_mistakes_fail_unless_the_condition_allows_them() -> None:
    cases = stream("1/0", "demonstrations", DEMONSTRATION_MIX)
    for item, drawn in zip(demonstrations(1, 0, 300), cases, strict=False):
        verdict = _verdict(drawn.case(), item)
        if not item.flawed:
            assert verdict.success
        elif item.skill == "window":
            first = drawn.case().order(drawn.requests[0].order)
            assert verdict.success == (first.window == "open")
        else:
            assert not verdict.success


def test_pools_are_independent_of_each_other_and_repeat() -> None:
    assert list(demonstrations(0, 3, 20)) == list(demonstrations(0, 3, 20))
    assert list(demonstrations(0, 3, 20)) != list(demonstrations(0, 4, 20))
    assert list(demonstrations(0, 3, 20)) != list(demonstrations(1, 3, 20))


def test_a_mistake_is_known_for_every_deficit_and_for_nothing_else() -> None:
    seen = set()
    for drawn in stream(5, "demonstrations"):
        if drawn.skill in WRONG_SHARE:
            assert mistaken(drawn)
        else:
            try:
                mistaken(drawn)
            except ValueError as error:
                assert drawn.skill in str(error)
            else:
                raise AssertionError(drawn.skill)
        seen.add(drawn.skill)
        if len(seen) == 6:
            break


def test_what_tools_answer_is_what_the_target_answers() -> None:
    target = EmbeddedTarget(Targets())
    item = next(iter(demonstrations(2, 0, 1)))
    drawn = next(stream("2/0", "demonstrations", DEMONSTRATION_MIX))
    task = target.tasks("test")[0].model_copy(
        update={"payload": drawn.case().payload(), "instruction": drawn.text}
    )

    async def replay() -> list[Message]:
        episode = target.episode(task, seed=0)
        messages = list(await episode.reset())[1:]
        for message in item.messages:
            if message.role == "assistant":
                step = await episode.step(message)
                messages += [message, *step.messages]
        return messages

    assert asyncio.run(replay()) == list(item.messages)


def _verdict(case: object, item: Demonstration) -> Verdict:
    from trace_assets.targets.embedded.desk import Case

    assert isinstance(case, Case)
    desk = case.desk()
    for message in item.messages:
        for call in message.tool_calls:
            desk.call(call)
    return judge(case, desk, item.messages[-1].content or "")


@pytest.mark.parametrize("desk", one_of_each(get_args(DeskName)))
def test_the_planted_truth_is_what_demonstrations_of_its_tasks_come_to(desk: DeskName) -> None:
    truth = planted_truth(desk)
    passed: dict[str, list[bool]] = defaultdict(list)
    for pool in range(RIGHT_POOLS[desk], RIGHT_POOLS[desk] + 2):
        drawn = stream(f"7/{pool}", "demonstrations", DEMONSTRATION_MIXES[desk])
        for item, case in zip(demonstrations(7, pool, 1000, desk), drawn, strict=False):
            passed[item.skill].append(bool(_verdict(case.case(), item).success))
    assert set(passed) == set(DEMONSTRATION_MIXES[desk])
    for skill, expected in {**truth.rates, **truth.skills}.items():
        n = len(passed[skill])
        error = 4 * math.sqrt(max(expected * (1 - expected), 0.0) / n)
        assert abs(sum(passed[skill]) / n - expected) <= error, (skill, n)
    assert 0 < truth.p0 < truth.routed <= 1


def test_a_pair_stops_early_and_slips_as_often_as_planned() -> None:
    share = WRONG_SHARES["b"]
    pairs = [item for item in demonstrations(0, 0, 2000, "b") if item.skill == "pair"]
    right = (1 - share["multi"]) * ((2 - share["cancel"] - share["window"]) / 2) ** 2
    assert abs(sum(not item.flawed for item in pairs) / len(pairs) - right) < 0.05


def test_naming_a_desk_changes_nothing_of_the_demonstrations_that_were_there() -> None:
    assert list(demonstrations(0, 0, 50, "a")) == list(demonstrations(0, 0, 50))
    text = "".join(item.model_dump_json() for item in demonstrations(0, 0, 500))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "85e2b7f592b92a70"
