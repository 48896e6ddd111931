"""Injected faults are found, and nobody is accused who did nothing: on made and, where given, real episodes.

`TRACE_TAU2_DATA=folder` names a folder of tau2 simulation files; their trajectories are then used as well.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from tests.diagnosis.injections import KINDS, failed
from tests.formats.reading import read_trajectories
from trace_assets.diagnosis.triage import triage
from trace_assets.records import Check, Message, ToldTask, ToolCall, Trajectory
from trace_assets.stats.intervals import wilson

REAL = "TRACE_TAU2_DATA"
FOUND, FALSE = 0.90, 0.05
SOURCES = [
    "made",
    pytest.param("real", marks=pytest.mark.skipif(REAL not in os.environ, reason=f"no {REAL}")),
]

ITEMS = ("lamp", "chair", "backpack", "espresso machine", "bicycle")
OFFERS = (
    "I can {verb} order {order} and refund ${amount} to your card. Shall I go ahead?",
    "To {verb} order {order} I need your confirmation: the refund is ${amount}. Do you want me to proceed?",
    "Here is what I would do:\n- {verb} order {order}\n- refund ${amount}\nWould you like me to do that?",
)
AGREED = (
    "Yes, please {verb} it.",
    "Yes, go ahead with order {order}.",
    "That sounds good, please proceed.",
    "Sure, I confirm.",
    "Okay, please do that for me. Thank you!",
)
OPENINGS = (
    "Hello, I would like to {verb} my order {order}. It should give me ${amount} back.",
    "Hi! Order {order} has a {item} that I do not want; please {verb} it, I paid ${amount}.",
)
QUESTIONS = (
    "I can help with that. Could you please tell me your email address?",
    "To verify who you are, please provide your name and zip code.",
    "Of course. What is the email on your account?",
)
ANSWERS = ("It is ann.lee@example.com.", "Ann Lee, zip code 19122.", "My email is ann.lee@example.com.")
CLOSINGS = ("Thanks, that is all. ###STOP###", "Great, thank you! ###STOP###", "No, that's all. ###STOP###")


def made(rng: random.Random, number: int) -> tuple[Trajectory, str]:
    """Return a passed episode of a shop, and what its simulated user was told."""
    words = {
        "order": f"#W{rng.randrange(1_000_000, 9_999_999)}",
        "amount": str(rng.randrange(20, 900)),
        "verb": rng.choice(["cancel", "return", "exchange"]),
        "item": rng.choice(ITEMS),
    }
    order, tool = words["order"], f"{words['verb']}_order"
    told = f"You want to {words['verb']} the {words['item']} of order {order}. You paid ${words['amount']}."

    def call(name: str, result: str) -> tuple[Message, Message]:
        one = ToolCall(id=f"{name}{number}", name=name, arguments={"order_id": order})
        answer = Message(role="tool", content=result, tool_call_id=one.id, tool_name=name)
        return Message(role="assistant", tool_calls=(one,)), answer

    def say(role: str, texts: tuple[str, ...]) -> Message:
        return Message.model_validate({"role": role, "content": rng.choice(texts).format(**words)})

    done = f"I have done so: order {order} is settled, ${words['amount']} will be on your card in a few days."
    messages = (
        say("user", OPENINGS),
        say("assistant", QUESTIONS),
        say("user", ANSWERS),
        *call("get_order", f'{{"order_id": "{order}", "status": "delivered", "total": {words["amount"]}}}'),
        say("assistant", OFFERS),
        say("user", AGREED),
        *call(tool, f'{{"order_id": "{order}", "status": "settled"}}'),
        Message(role="assistant", content=f"{done} Is there anything else I can help you with?"),
        say("user", CLOSINGS),
    )
    checks = (
        Check(name="db", kind="state", passed=True),
        Check(name="action/0/get_order", kind="action", passed=True, gates=False),
        Check(name=f"action/1/{tool}", kind="action", passed=True, gates=False),
    )
    one = Trajectory(
        trajectory_id=f"t{number}",
        task_id=f"shop/{number}",
        target="shop",
        task_batch="b",
        policy="p",
        user_policy="u",
        success=True,
        reward=1.0,
        stop="completed",
        n_messages=len(messages),
        messages=messages,
        checks=checks,
    )
    return one, told


@cache
def episodes(source: str) -> list[tuple[Trajectory, str]]:
    """Return episodes, with what their users were told; the made ones all passed."""
    if source == "made":
        rng = random.Random(20260101)
        return [made(rng, number) for number in range(200)]
    imported = read_trajectories(sorted(Path(os.environ[REAL]).glob("*.json")), "tau2")
    told = {task.task_id: task.instruction for task in imported.tasks}
    return [(one, told.get(one.task_id, "")) for one in imported.trajectories]


def task_of(one: Trajectory, told: str) -> dict[str, ToldTask]:
    """Return the task as it is known where nobody says what is expected."""
    return {one.task_id: ToldTask(task_id=one.task_id, instruction=told)}


@pytest.mark.parametrize("source", SOURCES)
def test_injected_faults_are_found(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    good = [(one, told) for one, told in episodes(source) if one.success]
    rng = random.Random(7)
    hits: dict[str, list[bool]] = defaultdict(list)
    for name, kind in KINDS.items():
        for one, told in good:
            broken = kind.inject(one, told, rng)
            if broken is None:
                continue
            (row,) = triage([broken], tasks=task_of(one, told), suspicions=())
            hits[name].append(row.fault == kind.fault and row.rule in kind.rules)
            assert row.outcome != "passed" and (row.fault != "infrastructure" or row.outcome == "unjudged")
    everything = [hit for found in hits.values() for hit in found]
    with capsys.disabled():
        print(f"\n{source}: injected faults found, with 95 % Wilson intervals")
        for name, found in {**hits, "all": everything}.items():
            low, high = wilson(sum(found), len(found))
            share = sum(found) / len(found)
            print(f"  {name:34} {share:6.1%} [{low:.1%}, {high:.1%}] n = {len(found)}")
    assert set(hits) == set(KINDS), "a kind of fault had no place in any episode"
    for name, found in hits.items():
        assert sum(found) >= FOUND * len(found), name


@pytest.mark.parametrize("source", SOURCES)
def test_the_untouched_are_not_accused(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Passed episodes, called failures without any other change, and failures of the agent."""
    accused: dict[str, list[bool]] = defaultdict(list)
    for one, told in episodes(source):
        tasks = task_of(one, told)
        (row,) = triage([one], tasks=tasks, suspicions=())
        if one.success:
            assert (row.fault, row.rule) == (None, "passed")
            (row,) = triage(
                [one.model_copy(update={"success": False, "reward": 0.0})], tasks=tasks, suspicions=()
            )
            accused["passed, called failed"].append(row.fault != "agent")
            clumsy = _clumsy(one)
            (row,) = triage([clumsy], tasks=tasks, suspicions=())
            accused["agent left its work undone"].append(row.fault != "agent")
    everything = [wrong for found in accused.values() for wrong in found]
    with capsys.disabled():
        print(f"\n{source}: falsely accused, with 95 % Wilson intervals")
        for name, found in {**accused, "all": everything}.items():
            low, high = wilson(sum(found), len(found))
            print(f"  {name:34} {sum(found) / len(found):6.1%} [{low:.1%}, {high:.1%}] n = {len(found)}")
    for name, found in accused.items():
        assert sum(found) < FALSE * len(found), name


def _clumsy(one: Trajectory) -> Trajectory:
    """Return the episode with the agent's last successful call gone: it claims what it did not do."""
    last = max((n for n, said in enumerate(one.messages) if said.tool_calls), default=None)
    if last is None or one.messages[last].role != "assistant":
        return failed(one, one.messages)
    gone = {call.id for call in one.messages[last].tool_calls}
    kept = tuple(
        said
        for n, said in enumerate(one.messages)
        if n != last and not (n > last and said.tool_call_id in gone)
    )
    return failed(one, kept)


def test_the_injections_leave_the_good_ones_alone() -> None:
    one, told = episodes("made")[0]
    before = one.model_dump_json()
    for kind in KINDS.values():
        kind.inject(one, told, random.Random(1))
    assert one.model_dump_json() == before
