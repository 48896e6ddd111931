"""Environments for a sentence of the policy that forbids a write: by a date, a state, or what none draws."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta
from typing import Any

import pytest
from recipe_cases import load

from trace_assets.environments.contract.description import TargetContract, contract_of
from trace_assets.environments.writers.writer import write_environment
from trace_assets.errors import InputError
from trace_assets.records import CapabilitySpec, Message, ToolCall, ToolSpec, Trajectory

NOW = datetime(2031, 5, 1, 12)
POLICY = "The current time is 2031-05-01 12:00:00. You look after the parcels of a shop."


def _tool(name: str, mutates: bool) -> ToolSpec:
    properties = {"parcel_id": {"type": "string"}}
    return ToolSpec(
        name=name,
        description=name,
        mutates=mutates,
        parameters={"type": "object", "properties": properties, "required": ["parcel_id"]},
    )


def _run(number: int, rng: random.Random) -> Trajectory:
    parcel = f"P{rng.randrange(1000, 9999)}"
    days = rng.randrange(-20, 60)
    record = {
        "parcel_id": parcel,
        "delivered_at": (NOW - timedelta(days=days)).isoformat(sep=" "),
        "opened": rng.random() < 0.5,
        "size": rng.choice(["small", "large"]),
    }
    messages = [Message(role="user", content=f"Please take back parcel {parcel}.")]
    for step, (name, answer) in enumerate((("get_parcel", record), ("return_parcel", {"ok": True}))):
        call = ToolCall(id=str(step), name=name, arguments={"parcel_id": parcel})
        messages.append(Message(role="assistant", tool_calls=(call,)))
        messages.append(
            Message(role="tool", content=json.dumps(answer), tool_call_id=call.id, tool_name=name)
        )
    messages.append(Message(role="assistant", content="It is taken back."))
    return Trajectory(
        trajectory_id=f"run-{number}",
        task_id=f"shop/{number}",
        target="shop",
        task_batch="b",
        policy="p",
        success=True,
        stop="completed",
        messages=tuple(messages),
    )


@pytest.fixture(scope="module")
def shop() -> TargetContract:
    """No run shows a return that was wrong: only the policy says which are."""
    rng = random.Random(3)
    tools = (_tool("get_parcel", False), _tool("return_parcel", True))
    return contract_of("shop", tools, POLICY, [_run(number, rng) for number in range(60)])


def written(shop: TargetContract, detector: str = "write_against_rule", **rule: Any) -> Any:
    spec = CapabilitySpec(
        capability_id="shop-rule",
        target="shop",
        name="Refrain from returning the parcel",
        description="A capability.",
        detector=detector,
        detector_args={"tool": "return_parcel", "argument": "parcel_id", "state": {}, **rule},
    )
    return load(write_environment(spec, shop).source)


def _age(record: dict[str, Any]) -> timedelta:
    return NOW - datetime.fromisoformat(record["delivered_at"])


AGES = {"field": "delivered_at", "now": "2031-05-01 12:00"}


@pytest.mark.parametrize(
    ("rule", "is_right"),
    [
        (
            {"kind": "window", "hours": 720.0, "ahead": False, **AGES},
            lambda record: _age(record) <= timedelta(days=30),
        ),
        (
            {"kind": "window", "hours": 48.0, "ahead": True, **AGES},
            lambda record: -_age(record) >= timedelta(hours=48),
        ),
        ({"kind": "past", **AGES, "now": "2031-05-01"}, lambda record: record["delivered_at"] > "2031-05-01"),
        ({"detector": "write_past_date", **AGES}, lambda record: record["delivered_at"] > "2031-05-01"),
        (
            {"kind": "state", "field": "opened", "values": ["true"], "only": False},
            lambda record: not record["opened"],
        ),
        (
            {"kind": "state", "field": "size", "values": ["enormous"], "only": False},
            lambda record: record["size"] != "enormous",
        ),
        (
            {"kind": "state", "field": "size", "values": ["small"], "only": True},
            lambda r: r["size"] == "small",
        ),
    ],
    ids=["within", "before", "past", "past, by no sentence", "yes or no", "never seen", "only"],
)
def test_what_the_sentence_forbids_is_refused_and_all_else_done(shop, rule, is_right) -> None:
    module = written(shop, **rule)
    done = []
    for seed in range(80):
        module.reset(seed)
        (record,) = module._episode["records"].values()
        made = any(
            call["name"] == "return_parcel"
            for message in module.oracle(seed)
            for call in message.get("tool_calls", ())
        )
        assert made == is_right(record), (seed, record)
        done.append(made)
    assert 24 <= sum(done) <= 56, "the sentence decides half of the episodes"


def test_a_moment_does_not_tell_its_side_by_its_minutes(shop) -> None:
    module = written(shop, kind="window", hours=720.0, ahead=False, **AGES)
    minutes: dict[bool, set[str]] = {True: set(), False: set()}
    for seed in range(200):
        module.reset(seed)
        (record,) = module._episode["records"].values()
        minutes[_age(record) <= timedelta(days=30)].add(record["delivered_at"][14:])
    assert len(minutes[True] & minutes[False]) >= 10


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({"kind": "most", "number": 3.0, "noun": "items"}, "what a call is given"),
        ({"kind": "given", "field": "reason", "values": ["gift"]}, "what a call is given"),
        ({"kind": "mark", "word": "fragile"}, "a look shows"),
        (
            {"kind": "state", "field": "size", "values": ["large"], "only": False, "given": ["gift"]},
            "what a call is given",
        ),
        (
            {"kind": "state", "field": "weight", "values": ["heavy"], "only": False},
            "successful trajectory|weight",
        ),
        ({"kind": "state", "field": "size", "values": [], "only": False}, "no value of 'size'"),
        ({"kind": "past", "field": "size", "now": "2031-05-01"}, "no value of 'size'"),
    ],
    ids=["most", "given", "mark", "two at once", "another field", "no values", "no date"],
)
def test_what_no_scene_can_draw_is_said(shop, rule, why) -> None:
    with pytest.raises(InputError, match=why):
        written(shop, **rule)
