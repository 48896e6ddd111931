"""A target whose users answer: visits at a clinic, worded freely, plain errors, records as answers."""

from __future__ import annotations

import json
import random
from typing import Any

from trace_assets.environments.contract.description import TargetContract, contract_of
from trace_assets.records import Message, ToolCall, ToolSpec, Trajectory

POLICY = """You serve patients of a clinic. Visits that are over cannot be cancelled.
A visit can be moved to another room if any of the following is true:
- It is a first visit
- It is still booked and the patient cannot climb stairs
Otherwise it stays where it is."""


def _tool(name: str, mutates: bool, description: str = "", **properties: dict[str, Any]) -> ToolSpec:
    return ToolSpec(
        name=name,
        description=description or name,
        mutates=mutates,
        parameters={"type": "object", "properties": properties, "required": list(properties)},
    )


TEXT = {"type": "string"}
VISIT = {"type": "string", "description": "The visit, such as '#V1000'."}
TOOLS = (
    _tool("get_visit", False, id=VISIT),
    _tool("get_patient", False, patient_id=TEXT),
    _tool(
        "cancel_visit",
        True,
        visit_id=VISIT,
        reason={"type": "string", "description": "Why: must be either 'feeling better' or 'no time'."},
    ),
    _tool("move_visit", True, visit_id=VISIT, room=TEXT),
    _tool(
        "drop_tests",
        True,
        visit_id=VISIT,
        test_ids={"type": "array", "items": TEXT},
        card_id=TEXT,
    ),
    _tool(
        "change_kind",
        True,
        visit_id=VISIT,
        kind={"type": "string", "enum": ["first", "control", "urgent"]},
        tests={"type": "array", "items": {"type": "object", "required": ["test_id"]}},
    ),
    _tool("transfer_to_nurse", True, summary=TEXT),
)
ROOMS = ("A wing", "B wing", "Annex", "Tower")
ASK = ("Hello there, I have a question about {0}.", "Hi! It is about my visit {0}", "Can we talk of {0}?")


def _record(rng: random.Random) -> dict[str, Any]:
    number = rng.randrange(1000, 9999)
    return {
        "visit_id": f"#V{number}",
        "patient_id": f"ann_lee_{rng.randrange(1000, 9999)}",
        "status": rng.choice(["booked", "over"]),
        "kind": rng.choice(["first", "control"]),
        "place": {"room": rng.choice(ROOMS), "floor": rng.randrange(1, 5)},
        "tests": [
            {"test_id": str(rng.randrange(10**6, 10**7)), "name": rng.choice(["blood", "lung", "eye"])}
            for _ in range(rng.choice((1, 2, 3)))
        ],
        "notes": {f"note_{rng.randrange(100, 999)}": {"by": "nurse"} for _ in range(rng.choice((1, 2)))},
        "cards": [{"card_id": f"card_{rng.randrange(1000, 9999)}", "paid": rng.randrange(5, 90)}],
    }


def _conversation(number: int, rng: random.Random) -> Trajectory:
    record, at = _record(rng), {"n": 0}
    messages = [Message(role="assistant", content="Hi! How can I help?")]
    messages.append(Message(role="user", content=rng.choice(ASK).format(record["visit_id"])))
    messages.append(Message(role="assistant", content="Who is asking?"))
    messages.append(Message(role="user", content=f"{record['patient_id']}, do what I said on the phone."))

    def call(name: str, answer: str, **arguments: Any) -> None:
        at["n"] += 1
        one = ToolCall(id=f"c{at['n']}", name=name, arguments=arguments)
        error = answer.startswith("Error")
        messages.append(Message(role="assistant", tool_calls=(one,)))
        messages.append(
            Message(role="tool", content=answer, tool_call_id=one.id, tool_name=name, is_error=error)
        )

    visit = record["visit_id"]
    if rng.random() < 0.2:
        call("get_visit", "Error: Visit not found", id=visit[1:])
    call("get_visit", json.dumps(record), id=visit)
    if rng.random() < 0.3:
        who = {"patient_id": record["patient_id"], "name": "Ann Lee", "visits": [visit]}
        call("get_patient", json.dumps(who), patient_id=record["patient_id"])
    act = rng.choice(["cancel_visit", "move_visit", "drop_tests", "change_kind"])
    if act == "cancel_visit":
        reason = rng.choice(["feeling better", "no time"])
        over = record["status"] == "over"
        after = json.dumps({**record, "status": "cancelled"})
        answer = "Error: Visit that is over cannot be cancelled" if over else after
        call(act, answer, visit_id=visit, reason=reason)
        if over:
            call("transfer_to_nurse", "Transfer successful", summary="over")
    elif act == "move_visit":
        room = rng.choice([one for one in ROOMS if one != record["place"]["room"]])
        moved = {**record, "place": {**record["place"], "room": room}}
        call(act, json.dumps(moved), visit_id=visit, room=room)
    elif act == "change_kind":
        kind = rng.choice(["first", "control", "urgent"])
        told = {"message": "Kind changed", "visit": {**record, "kind": kind}}
        kept = [{"test_id": one["test_id"]} for one in record["tests"]]
        call(act, json.dumps(told), visit_id=visit, kind=kind, tests=kept)
    else:
        dropped = {"test_ids": [record["tests"][0]["test_id"]], "card_id": record["cards"][0]["card_id"]}
        call(act, json.dumps({**record, "status": "booked"}), visit_id=visit, **dropped)
    messages.append(Message(role="assistant", content="That is settled."))
    messages.append(Message(role="user", content="Thanks, bye. ###STOP###"))
    return Trajectory(
        trajectory_id=f"run-{number}",
        task_id=f"clinic/{number}",
        target="clinic",
        task_batch="b",
        policy="p",
        success=True,
        stop="completed",
        messages=tuple(messages),
    )


def clinic_contract() -> TargetContract:
    """Return the contract of 240 conversations."""
    rng = random.Random(11)
    return contract_of("clinic", TOOLS, POLICY, [_conversation(number, rng) for number in range(240)])
