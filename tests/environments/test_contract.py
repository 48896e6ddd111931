"""Contracts of two targets: the embedded one, and a library that shares nothing with it."""

import json
import random
from typing import Any

import pytest

from trace_assets.environments.contract.description import (
    TargetContract,
    contract_of,
    extract_contract,
    mutation_marked,
)
from trace_assets.environments.writers.writer import write_environment
from trace_assets.errors import InputError
from trace_assets.records import CapabilitySpec, Message, ToolCall, ToolSpec, Trajectory
from trace_assets.targets.embedded.target import EmbeddedTarget


def test_contract_shows_the_target(contract: TargetContract, target: EmbeddedTarget) -> None:
    assert contract.tools == tuple(target.tools)
    assert contract.policy == target.policy
    assert contract.protocol.starts_with_system
    assert contract.protocol.ends_with_text
    assert contract.protocol.parallel_calls == 1
    record = contract.result("get_order")
    assert record is not None
    assert record.json_schema["properties"]["status"]["enum"] == ["delivered", "pending", "shipped"]
    assert not record.compact
    written = contract.result("transfer")
    assert written is not None
    assert written.usual == '{"ok": true}'


def test_guards_are_those_of_the_policy(contract: TargetContract) -> None:
    cancel, refund = contract.guard("cancel_order"), contract.guard("refund_item")
    assert cancel is not None and refund is not None
    assert (cancel.field, cancel.allowed, cancel.instead) == ("status", ("pending",), "transfer")
    assert set(cancel.forbidden) == {"shipped", "delivered"}
    assert (refund.field, refund.allowed, refund.forbidden) == ("window", ("open",), ("closed",))
    assert refund.selects == {"item": "items[].name"}
    assert refund.instead_arguments["reason"] == "window_closed"
    free = contract.guard("update_address")
    assert free is not None
    assert free.field == ""
    assert free.read_first == 1.0


def refrained(trajectory: Trajectory) -> bool:
    return any(
        call.name == "transfer" and call.arguments.get("reason") == "not_pending"
        for message in trajectory.messages
        for call in message.tool_calls
    )


def test_two_who_refrained_are_enough_where_the_tool_s_own_words_name_the_state(target, trajectories) -> None:
    few = [one for one in trajectories if one.success and refrained(one)][:2]
    kept = [*(one for one in trajectories if not refrained(one)), *few]
    cancel = extract_contract(target, kept).guard("cancel_order")
    assert cancel is not None and (cancel.field, cancel.allowed) == ("status", ("pending",))
    assert cancel.instead == "transfer" and set(cancel.forbidden) <= {"shipped", "delivered"}
    # Words that name no state leave it open what the two had in common.
    tools = [
        tool.model_copy(update={"description": "Cancel a whole order."})
        if tool.name == "cancel_order"
        else tool
        for tool in target.tools
    ]
    unsaid = contract_of(target.name, tools, target.policy, kept).guard("cancel_order")
    assert unsaid is not None and unsaid.field == ""


def test_wordings_lose_their_openings_closings_and_values(contract: TargetContract) -> None:
    texts = {pattern.text for pattern in contract.phrasing.patterns}
    assert "please cancel order {order}" in texts
    assert not any(
        text.startswith(("Hi", "Hello", "Dear")) or text.endswith((".", "thanks")) for text in texts
    )
    assert "Dear desk, " in contract.phrasing.openings
    assert ", thanks." in contract.phrasing.closings
    assert "{first} and {second}" in contract.phrasing.frames
    for pattern in contract.phrasing.patterns:
        assert pattern.goal is not None
        assert pattern.goal.object_slot == "order"


def test_closings(contract: TargetContract) -> None:
    said = {closing.tool: closing for closing in contract.closings}
    assert "refunded" in said["refund_item"].words
    assert said["get_order"].fields == ("status",)
    assert said["get_order"].text == "The order is {.status}."


def test_order_of_trajectories_does_not_matter(target, trajectories, contract: TargetContract) -> None:
    shuffled = random.Random(1).sample(trajectories, len(trajectories))
    assert extract_contract(target, shuffled).fingerprint() == contract.fingerprint()
    assert TargetContract.model_validate_json(contract.model_dump_json()) == contract


def test_held_out_trajectories_are_refused(target, trajectories) -> None:
    held_out = trajectories[0].model_copy(update={"split": "test"})
    with pytest.raises(InputError, match="discovery trajectories only"):
        extract_contract(target, [*trajectories[:5], held_out])
    with pytest.raises(InputError, match="no usable discovery trajectory"):
        extract_contract(target, [])
    broken = trajectories[0].model_copy(update={"fault": "infrastructure"})
    with pytest.raises(InputError, match="no usable"):
        extract_contract(target, [broken])


def test_unjudged_trajectories_teach_wordings_but_no_guard(target, trajectories) -> None:
    unjudged = [t.model_copy(update={"success": None, "reward": None}) for t in trajectories]
    contract = extract_contract(target, unjudged)
    assert any(pattern.goal for pattern in contract.phrasing.patterns)
    assert contract.guards == ()


def test_mutation_is_told_by_name_where_the_target_does_not_say() -> None:
    tools = [ToolSpec(name="list_loans"), ToolSpec(name="renew_loan"), ToolSpec(name="get_x", mutates=True)]
    assert [tool.mutates for tool in mutation_marked(tools)] == [False, True, True]


# -- a library: parallel words, other shapes, compact JSON, a target that refuses by itself ------------------


def _loan_tool(name: str, mutates: bool, **more: dict[str, Any]) -> ToolSpec:
    properties = {"loan_id": {"type": "string"}, **more}
    return ToolSpec(
        name=name,
        description=name,
        mutates=mutates,
        parameters={"type": "object", "properties": properties, "required": list(properties)},
    )


LIBRARY = [
    _loan_tool("get_loan", False),
    _loan_tool("renew_loan", True),
    _loan_tool("move_loan", True, branch={"type": "string"}),
    _loan_tool("ask_librarian", True, note={"type": "string"}),
]
BRANCHES = ["Harbour", "Castle", "Station", "Market"]
ASK = {
    "renew_loan": ["Renew my loan {0}", "Can I keep {0} for longer", "Loan {0} needs more time"],
    "move_loan": ["Send loan {0} to {1}", "I would rather collect {0} at {1}", "Loan {0} belongs in {1} now"],
}


def library(n: int, seed: int) -> list[Trajectory]:
    rng = random.Random(seed)
    trajectories = []
    for number in range(n):
        loan, branch = f"ln-{rng.randrange(1000, 9999)}", rng.choice(BRANCHES)
        tool = rng.choice(["renew_loan", "move_loan"])
        text = (
            rng.choice(["", "Good day! "])
            + rng.choice(ASK[tool]).format(loan, branch)
            + rng.choice([".", ", please."])
        )
        reserved = rng.random() < 0.5
        record = {
            "loan_id": loan,
            "title": f"Book {rng.randrange(999)}",
            "reserved": "yes" if reserved else "no",
            "branch": rng.choice([b for b in BRANCHES if b != branch]),
            "renewals": rng.randrange(3),
        }
        right = rng.random() < 0.6
        act = "ask_librarian" if tool == "renew_loan" and reserved and right else tool
        arguments = {"loan_id": loan}
        arguments |= {"branch": branch} if act == "move_loan" else {}
        arguments |= {"note": "reserved"} if act == "ask_librarian" else {}
        refused = act == "renew_loan" and reserved
        answer = {"error": f"{loan} is reserved"} if refused else {"done": 1}
        words = {
            "renew_loan": "Renewed.",
            "move_loan": "It moves.",
            "ask_librarian": "A librarian will call.",
        }
        calls = [
            ToolCall(id="a", name="get_loan", arguments={"loan_id": loan}),
            ToolCall(id="b", name=act, arguments=arguments),
        ]
        dump = json.JSONEncoder(separators=(",", ":")).encode
        messages = [
            Message(role="user", content=text),
            Message(role="assistant", tool_calls=(calls[0],)),
            Message(role="tool", content=dump(record), tool_call_id="a", tool_name="get_loan"),
            Message(role="assistant", tool_calls=(calls[1],)),
            Message(role="tool", content=dump(answer), tool_call_id="b", tool_name=act, is_error=refused),
            Message(role="assistant", content=words[act]),
        ]
        trajectories.append(
            Trajectory(
                trajectory_id=f"t{number}",
                task_id=f"k{number}",
                target="library",
                task_batch="b",
                policy="p",
                success=not refused,
                reward=float(not refused),
                stop="completed",
                messages=tuple(messages),
            )
        )
    return trajectories


@pytest.fixture(scope="module")
def shelf() -> TargetContract:
    return contract_of("library", LIBRARY, "", library(200, 3))


def test_another_target_is_read_as_well(shelf: TargetContract) -> None:
    renew = shelf.guard("renew_loan")
    assert renew is not None
    assert (renew.field, renew.allowed, renew.forbidden) == ("reserved", ("no",), ("yes",))
    assert (renew.instead, renew.refusal) == ("ask_librarian", '{"error":"{loan_id} is reserved"}')
    assert not shelf.protocol.starts_with_system
    assert {p.text for p in shelf.phrasing.patterns} == {
        text.format("{loan_id}", "{branch}") for texts in ASK.values() for text in texts
    }
    assert shelf.phrasing.openings == ("", "Good day! ")
    loan = shelf.result("get_loan")
    assert loan is not None
    assert loan.compact


@pytest.mark.parametrize(
    ("detector", "arguments"),
    [
        ("write_without_read", {"tool": "renew_loan", "read": "get_loan"}),
        (
            "write_against_state",
            {"tool": "renew_loan", "field": "reserved", "value": "yes", "instead": "ask_librarian"},
        ),
        ("object_untouched", {"argument": "loan_id"}),
        ("ended_with_work_open", {"tool": "move_loan"}),
    ],
)
def test_recipes_fit_another_target(shelf: TargetContract, detector: str, arguments: dict[str, str]) -> None:
    spec = CapabilitySpec(
        capability_id="c",
        target="library",
        name="n",
        description="d",
        detector=detector,
        detector_args=arguments,
    )
    module: dict[str, Any] = {}
    exec(write_environment(spec, shelf).source, module)
    for seed in range(60):
        first = module["reset"](seed)
        assert [message["role"] for message in first] == ["user"]
        for message in module["oracle"](seed):
            for answer in module["step"](message)["messages"]:
                assert ": " not in answer["content"]
                assert not answer["is_error"]
        assert module["verdict"]() | {"checks": ()} == {"reward": 1.0, "success": True, "checks": ()}


def test_a_target_that_refuses_by_itself_is_simulated_so(shelf: TargetContract) -> None:
    spec = CapabilitySpec(
        capability_id="c",
        target="library",
        name="n",
        description="d",
        detector="write_without_read",
        detector_args={"tool": "renew_loan", "read": "get_loan"},
    )
    module: dict[str, Any] = {}
    exec(write_environment(spec, shelf).source, module)
    module["reset"](1)
    loan = module["oracle"](1)[0]["tool_calls"][0]["arguments"]
    step = module["step"](
        {"role": "assistant", "tool_calls": [{"id": "x", "name": "renew_loan", "arguments": loan}]}
    )
    assert step["messages"][0]["is_error"]
    assert step["messages"][0]["content"] == json.dumps(
        {"error": f"{loan['loan_id']} is reserved"}, separators=(",", ":")
    )
