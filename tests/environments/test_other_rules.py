"""Scenes of recipes, and oracles, keep to every rule of the policy, not to the one alone that is taught."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from recipe_cases import REAL, cases, load, spec_of, tau2_contract

from tests.audit_fixtures.runner import record
from tests.audit_fixtures.unforeseen.runner import second_set, subject_here, third_set, unforeseen
from trace_assets.diagnosis.detectors.policy_text import PolicyText
from trace_assets.environments.audit.check import Finding
from trace_assets.environments.audit.policy_rule import NO_RECORD, breaks_no_sentence
from trace_assets.environments.contract.description import TargetContract, contract_of
from trace_assets.environments.contract.record_rules import RecordRules
from trace_assets.environments.writers.writer import write_environment
from trace_assets.records import CapabilitySpec, Message, ToolCall, ToolSpec, Trajectory

TODAY = "2031-05-01"
POLICY = f"""Today is {TODAY}. You serve the owners of boats in a marina.
## Extend a berth
Closed berths cannot be extended. Berths whose lease end date is in the past cannot be extended.
A berth must not be extended if it is flooded and unlit. A berth can be extended for up to 30 days.
## Inspect a berth
Berths can be inspected at any time."""
TEXT = {"type": "string"}
TOOLS = (
    ToolSpec(
        name="get_berth",
        description="Show a berth.",
        mutates=False,
        parameters={"type": "object", "properties": {"berth_id": TEXT}, "required": ["berth_id"]},
    ),
    *(
        ToolSpec(
            name=name,
            description=name,
            mutates=True,
            parameters={
                "type": "object",
                "properties": {"berth_id": TEXT, "days": {"type": "integer", "enum": [7, 14, 30, 60]}},
                "required": ["berth_id", "days"],
            },
        )
        for name in ("extend_berth", "inspect_berth")
    ),
)
needs_tau2 = pytest.mark.skipif(REAL not in os.environ, reason=f"no {REAL}")


def _berth(rng: random.Random) -> dict[str, Any]:
    return {
        "berth_id": f"B{rng.randrange(1000, 9999)}",
        "pier": rng.choice(["north", "south"]),
        "days": rng.choice([7, 14, 30]),
        "state": rng.choice(["rented", "closed"]),
        "water": rng.choice(["flooded", "dry"]),
        "lamp": rng.choice(["unlit", "bright"]),
        "lease_end_date": f"2031-{rng.choice((3, 4, 6, 7)):02d}-{rng.randrange(1, 29):02d}",
    }


def _run(number: int, rng: random.Random) -> Trajectory:
    berth = _berth(rng)
    name, days = rng.choice(["extend_berth", "inspect_berth"]), rng.choice([7, 14])
    calls = [
        ToolCall(id="c1", name="get_berth", arguments={"berth_id": berth["berth_id"]}),
        ToolCall(id="c2", name=name, arguments={"berth_id": berth["berth_id"], "days": days}),
    ]
    verb = name.split("_")[0]
    messages = [
        Message(role="system", content=POLICY),
        Message(role="user", content=f"Please {verb} berth {berth['berth_id']} for {days} days."),
    ]
    for call, answer in zip(calls, (json.dumps(berth), "ok"), strict=True):
        messages += [
            Message(role="assistant", tool_calls=(call,)),
            Message(role="tool", content=answer, tool_call_id=call.id, tool_name=call.name),
        ]
    return Trajectory(
        trajectory_id=f"run-{number}",
        task_id=f"marina/{number}",
        target="marina",
        task_batch="b",
        policy="p",
        success=True,
        stop="completed",
        messages=(*messages, Message(role="assistant", content="Done.")),
    )


@pytest.fixture(scope="module")
def marina() -> TargetContract:
    rng = random.Random(5)
    return contract_of("marina", TOOLS, POLICY, [_run(number, rng) for number in range(160)])


def _spec(family: str, **given: Any) -> CapabilitySpec:
    return CapabilitySpec(
        capability_id=family.replace("_", "-"),
        target="marina",
        name=family,
        description="A capability.",
        detector=family,
        detector_args=given,
    )


def _found(source: str, target: str) -> Finding:
    return breaks_no_sentence(subject_here(record(source, target), _spec("empty_turn")))


def _scenes(source: str) -> Iterator[tuple[Mapping[str, Any], list[Mapping[str, Any]]]]:
    """Yield the record of an episode and the oracle's changes."""
    module = load(source)
    for seed in range(120):
        module.reset(seed)
        (one,) = module._episode["records"].values()
        calls = [c for m in module.oracle(seed) for c in m.get("tool_calls", ())]
        yield one, [c for c in calls if c["name"] != "get_berth"]


def test_what_is_asked_for_breaks_no_other_rule(marina: TargetContract) -> None:
    spec = _spec("unverified_write", writes=["extend_berth"], reads=["get_berth"])
    extended = 0
    for berth, changes in _scenes(write_environment(spec, marina).source):
        for change in changes:
            assert change["name"] == "extend_berth" and change["arguments"]["days"] <= 30
            assert berth["state"] == "rented" and berth["lease_end_date"] > TODAY
            assert (berth["water"], berth["lamp"]) != ("flooded", "unlit")
            extended += 1
    assert extended >= 120


def test_the_rule_that_is_taught_is_still_broken_on_purpose(marina: TargetContract) -> None:
    spec = _spec("write_against_state", tool="extend_berth", field="state", value="closed", instead="")
    states = set()
    for berth, changes in _scenes(write_environment(spec, marina).source):
        states.add((berth["state"], bool(changes)))
        assert berth["lease_end_date"] > TODAY
    assert states == {("rented", True), ("closed", False)}


def test_what_the_policy_allows_at_any_time_is_drawn_as_it_was_seen(marina: TargetContract) -> None:
    spec = _spec("write_without_read", tool="inspect_berth", read="get_berth")
    module = load(write_environment(spec, marina).source)
    dates = module.PLAN["record"]["properties"]["lease_end_date"]
    assert any(one < TODAY for one in dates.get("examples") or dates["enum"])
    assert all("closed" in one["records"].get("state", ["closed"]) for one in module.PLAN["wishes"])


def test_the_check_sees_each_rule_that_an_oracle_breaks(marina: TargetContract) -> None:
    spec = _spec("unverified_write", writes=["extend_berth"], reads=["get_berth"])
    source = write_environment(spec, marina).source
    passed = _found(source, "marina")
    assert (passed.status, passed.value) == ("pass", 0.0), passed
    for field, value, said in (
        ("state", "closed", "closed berths cannot be extended."),
        ("lease_end_date", "2031-04-30", "in the past cannot be extended."),
    ):
        spoilt = source + "\n\ndef _spoil(seed, scene=_scene):\n    text, wants, records = scene(seed)\n"
        spoilt += f"    for one in records.values():\n        one[{field!r}] = {value!r}\n"
        spoilt += "    return text, wants, records\n\n\n_scene = _spoil\n"
        found = _found(spoilt, "marina")
        assert found.status == "fail" and said in found.evidence and value in found.evidence, found


def test_without_a_record_nothing_is_said(marina: TargetContract) -> None:
    spec = _spec("unverified_write", writes=["extend_berth"], reads=["get_berth"])
    source = write_environment(spec, marina).source.replace(
        "return _dump(record), False", 'return "ok", False'
    )
    assert _found(source, "marina") == Finding("skip", NO_RECORD)


def test_conditions_that_are_told_apart_by_no_reading_accuse_nobody() -> None:
    """`But not if` turns a sentence that allows, and a quoted value may have words that forbid."""
    text = (
        f"It is {TODAY}. A berth may be extended once it is paid, but not if its lease end date has passed."
    )
    known = {"lease_end_date": ["2031-07-01"], "state": ["paid"]}
    rules = RecordRules(PolicyText(text), "extend_berth", ["extend_berth"], known)
    assert not list(rules.breaches({"lease_end_date": "2031-07-01", "state": "paid"}, {}))
    text = "To cancel a berth, the user names a reason, either 'no longer needed' or 'by mistake'."
    given = {"reason": ["no longer needed", "by mistake", "other"]}
    rules = RecordRules(PolicyText(text), "cancel_berth", ["cancel_berth"], {}, given)
    assert not rules.forbids_argument("reason", "by mistake")


@pytest.mark.ci
def test_no_environment_of_the_three_sets_is_accused() -> None:
    """Nothing that they do wrong is of this kind: what is found would be a misreading."""
    every = [*unforeseen(), *second_set(), *third_set()]
    found = {(one.kind, one.name): breaks_no_sentence(one.subject()) for one in every}
    assert {name: one.evidence for name, one in found.items() if one.status == "fail"} == {}
    assert sum(one.status == "pass" for one in found.values()) >= 50


@needs_tau2
@pytest.mark.parametrize(("desk", "family"), cases("tau2:airline", "tau2:retail", "tau2:telecom_solo"))
def test_recipes_of_tau2s_desks_break_no_sentence(desk: str, family: str) -> None:
    found = _found(write_environment(spec_of(desk, family), tau2_contract(desk)).source, desk)
    assert found.status == "pass" or found.evidence == NO_RECORD, found


@pytest.mark.parametrize(
    "so", [": call the harbour master.", ", call the harbour master.", "; call instead."]
)
def test_what_is_to_be_done_instead_is_not_forbidden(so: str) -> None:
    policy, tools = PolicyText(f"A flooded berth must not be extended{so}"), ["extend_berth", "call_master"]
    broken = {
        tool: [
            *RecordRules(policy, tool, tools, {"state": ["flooded", "dry"]}).breaches(
                {"state": "flooded"}, {}
            )
        ]
        for tool in tools
    }
    assert {tool: len(found) for tool, found in broken.items()} == {"extend_berth": 1, "call_master": 0}


@pytest.mark.parametrize(
    "text",
    [
        "A flooded berth is not called off: pass it on with call_master.",
        "A flooded berth cannot be called off: pass it on with call_master.",
        "Do not call off a flooded berth: pass it on with call_master.",
        "A flooded berth is never set aside: use call_master.",
        "Where no berth is flooded, nobody is called.",
        "If none is flooded, do not call the master.",
    ],
)
def test_a_verb_with_a_particle_is_another_verb_and_no_condition_is_turned_round(text: str) -> None:
    tools = ["cancel_berth", "call_master", "set_lamp"]
    values = {"state": ["flooded", "dry"]}
    for tool in ("call_master", "set_lamp"):
        rules = RecordRules(PolicyText(text), tool, tools, values)
        assert not list(rules.breaches({"state": "flooded"}, {})), tool


def test_what_is_forbidden_with_a_tools_own_name_stays_forbidden() -> None:
    text = PolicyText("Flooded berths must not be handed over with call_master.")
    rules = RecordRules(text, "call_master", ["extend_berth", "call_master"], {"state": ["flooded", "dry"]})
    assert list(rules.breaches({"state": "flooded"}, {}))


@needs_tau2
def test_what_is_asked_for_does_not_tell_what_the_record_has() -> None:
    """Who wishes for the value that forbids has another one, so such a wish would say that it is allowed."""
    spec = spec_of("tau2:airline", "write_against_state")
    module = load(write_environment(spec, tau2_contract("tau2:airline")).source)
    asked: dict[bool, set[str]] = {True: set(), False: set()}
    for seed in range(120):
        said = module.reset(seed)[-1]["content"]
        calls = [c["name"] for m in module.oracle(seed) for c in m.get("tool_calls", ())]
        asked["update_reservation_flights" in calls].add(said.split("with cabin ")[1].split(",")[0])
    assert asked[True] == asked[False] == {"business", "economy"}
