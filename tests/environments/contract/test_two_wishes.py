"""When a change is right, learned from requests for two things: no request asks for one of them alone."""

from __future__ import annotations

import json
import random

import pytest

from trace_assets.environments.contract.description import TargetContract, contract_of
from trace_assets.environments.templates.scenario_builders import looked_first, several
from trace_assets.records import CapabilitySpec, Message, ToolCall, ToolSpec, Trajectory


def tool(name: str, mutates: bool, **more: str) -> ToolSpec:
    properties = {"parcel": {"type": "string"}} | {key: {"type": kind} for key, kind in more.items()}
    return ToolSpec(
        name=name,
        description=name,
        mutates=mutates,
        parameters={"type": "object", "properties": properties, "required": list(properties)},
    )


DEPOT = [
    *(tool("look", False), tool("stop", True), tool("redirect", True, town="string")),
    tool("ask_clerk", True, why="string"),
]
TOWNS = ("Ulm", "Graz", "Bern", "Turin")
WISHES = {
    "stop": ("Stop parcel {0}", "Parcel {0} must not leave", "Hold back {0} for me"),
    "redirect": ("Send {0} to {1}", "Parcel {0} goes to {1}", "I want {0} in {1}"),
}
JOINTS = ("{0}. {1}", "{0}, and {1}", "Firstly: {0}. Secondly: {1}")


def played(number: int, rng: random.Random, *, single: bool = False) -> Trajectory:
    """Two wishes (or one), served by an agent that stops a parcel only while it is in the depot."""
    messages, said = list[Message](), list[str]()
    for place in range(1 if single else 2):
        act, parcel, town = rng.choice(list(WISHES)), f"PX{rng.randrange(100, 999)}", rng.choice(TOWNS)
        if single:
            act = "redirect"
        state = rng.choice(("depot", "road", "depot", "delivered"))
        allowed = act == "redirect" or state == "depot"
        name = act if allowed else "ask_clerk"
        more = {"town": town} if name == "redirect" else {"why": "gone"} if name == "ask_clerk" else {}
        said.append(rng.choice(WISHES[act]).format(parcel, town))
        record = {"parcel": parcel, "state": state, "weight": rng.randrange(9)}
        for call, arguments, answer in (("look", {}, record), (name, more, {"ok": True})):
            key = f"{call}{place}"
            asked = ToolCall(id=key, name=call, arguments={"parcel": parcel, **arguments})
            messages.append(Message(role="assistant", tool_calls=(asked,)))
            messages.append(
                Message(role="tool", content=json.dumps(answer), tool_call_id=key, tool_name=call)
            )
    if single:
        text = said[0]
    else:
        second = said[1] if rng.random() < 0.5 else said[1][0].lower() + said[1][1:]
        text = rng.choice(JOINTS).format(said[0], second)
    passed = rng.random() < 0.7
    return Trajectory(
        trajectory_id=f"t{number}",
        task_id=f"k{number}",
        target="depot",
        task_batch="b",
        policy="p",
        success=passed,
        reward=float(passed),
        stop="completed",
        messages=(
            Message(role="user", content=text + "."),
            *messages,
            Message(role="assistant", content="That is done."),
        ),
    )


@pytest.fixture(scope="module")
def depot() -> TargetContract:
    rng = random.Random(1)
    return contract_of("depot", DEPOT, "", [played(n, rng) for n in range(240)])


def test_a_condition_is_learned_where_every_request_is_for_two_things(depot: TargetContract) -> None:
    stop, redirect = depot.guard("stop"), depot.guard("redirect")
    assert stop is not None and redirect is not None
    assert (stop.field, stop.allowed, stop.forbidden) == ("state", ("depot",), ("delivered", "road"))
    assert (stop.instead, stop.instead_arguments) == ("ask_clerk", {"why": "gone"})
    assert redirect.field == "" and redirect.n > stop.n / 3


def test_wordings_are_those_of_one_thing_without_what_joins_them(depot: TargetContract) -> None:
    texts = {one.text for one in depot.phrasing.patterns if one.goal and one.goal.tool == "stop"}
    assert texts == {"Stop parcel {parcel}", "Parcel {parcel} must not leave", "Hold back {parcel} for me"}
    assert all(one.of_two for one in depot.phrasing.patterns)


def test_what_is_asked_for_alone_is_not_read_off_two_wishes() -> None:
    rng = random.Random(2)
    runs = [played(n, rng, single=n % 2 == 0) for n in range(240)]
    found = contract_of("depot", DEPOT, "", runs)
    tools = {(one.goal.tool, one.of_two) for one in found.phrasing.patterns if one.goal}
    assert tools == {("redirect", False), ("stop", True)}
    guard = found.guard("stop")
    assert guard is not None and guard.field == "state"


def test_failed_runs_teach_no_condition() -> None:
    rng = random.Random(3)
    runs = [played(n, rng).model_copy(update={"success": False, "reward": 0.0}) for n in range(120)]
    guard = contract_of("depot", DEPOT, "", runs).guard("stop")
    assert guard is None or guard.field == ""


def test_the_recipe_about_several_objects_asks_for_what_is_asked_for_together(depot: TargetContract) -> None:
    rng = random.Random(2)
    some = contract_of("depot", DEPOT, "", [played(n, rng, single=n % 2 == 0) for n in range(240)])
    for contract, tools in ((depot, {"stop", "redirect"}), (some, {"stop"})):
        spec = CapabilitySpec(
            capability_id="c",
            target="depot",
            name="All of it",
            description="Serve every parcel.",
            detector="object_untouched",
            detector_args={"argument": "parcel"},
        )
        wishes = {one["tool"]: one for one in several(spec, contract).plan["wishes"]}
        assert set(wishes) == tools
        assert wishes["stop"]["records"]["state"] == ["depot"] and wishes["stop"]["guard"] is None


def test_the_recipe_of_looking_first_then_holds_what_must_not_be_done(depot: TargetContract) -> None:
    spec = CapabilitySpec(
        capability_id="c",
        target="depot",
        name="Look first",
        description="Look before stopping.",
        detector="write_without_read",
        detector_args={"tool": "stop", "read": "look", "argument": "parcel"},
    )
    (wish,) = looked_first(spec, depot).plan["wishes"]
    assert wish["guard"]["field"] == "state" and set(wish["guard"]["forbidden"]) == {"delivered", "road"}
