"""Airline: cancel a reservation only when a condition of the rule holds."""

import json
import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta

POLICY = """# Airline Agent Policy
The current time is 2024-05-15 15:00:00 EST.
A reservation can be cancelled if any of the following is true:
- the booking was made within the last 24 hrs
- the flight is cancelled by the airline
- it is a business reservation
- the user has travel insurance and the reason for cancellation is covered by it (health or weather).
Otherwise deny the request. The API does not check these rules. The user has already confirmed."""

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS = [
    _t("get_reservation_details", "Get the details of a reservation.", ["reservation_id"], reservation_id="string"),
    _t("get_flight_status", "Get the status of a flight.", ["flight_number", "date"], flight_number="string", date="string"),
    _t("cancel_reservation", "Cancel the whole reservation.", ["reservation_id"], reservation_id="string"),
]

REASONS = {
    "health": ["I broke my leg", "I am ill and the doctor will not let me fly", "my back has given out"],
    "weather": ["there is a storm over the destination", "they have announced a blizzard"],
    "plans": ["my meeting has been moved", "I have changed my mind", "I would rather take the train"],
}
AIRPORTS = ["SFO", "JFK", "ORD", "LAX", "DFW", "SEA", "BOS", "MIA", "PHX", "ATL"]


@dataclass
class Desk:
    request: str
    reservation: dict
    status: str
    cancel: bool
    reply: str = ""
    finished: bool = False
    turns: int = 0
    errors: int = 0
    seen: set = field(default_factory=set)
    cancelled: list = field(default_factory=list)

    def call(self, name, given):
        if name == "get_flight_status":
            flight = self.reservation["flights"][0]
            if given["flight_number"] != flight["flight_number"]:
                raise Refused("Flight not found")
            self.seen.add("flight")
            return self.status
        if given["reservation_id"] != self.reservation["reservation_id"]:
            raise Refused("Reservation not found")
        if name == "get_reservation_details":
            self.seen.add("reservation")
            return self.reservation
        self.cancelled.append("reservation" in self.seen)
        self.reservation["status"] = "cancelled"
        return self.reservation

    def checks(self):
        looked = "reservation" in self.seen and all(self.cancelled)
        right = len(self.cancelled) == 1 if self.cancel else looked and not self.cancelled
        return [
            ("read_the_reservation", "action", looked, 1),
            ("rule_applied", "state", right, 2),
            ("answered", "communicate", right and looked and self.finished, 1),
        ]


def begin(seed):
    rng = random.Random(f"cancel {seed}")
    now = datetime(2024, 5, 15, 15)
    why = rng.choice(["health", "weather", "plans"])
    case = rng.choice(["insured", "insured", "insured", "new", "business", "airline", "none", "none", "none", "none", "none"])
    insured = case == "insured" or rng.random() < 0.2
    created = now - (timedelta(hours=rng.randint(2, 20)) if case == "new" else timedelta(hours=rng.randint(40, 400)))
    a, b = rng.sample(AIRPORTS, 2)
    flight = {"origin": a, "destination": b, "flight_number": f"HAT{rng.randint(100, 299)}", "date": f"2024-05-{rng.randint(17, 29)}"}
    number = "".join(rng.choice("ABCDEFGHJKLMNPQRSTUVWXYZ0123456789") for _ in range(6))
    reservation = {
        "reservation_id": number,
        "cabin": "business" if case == "business" else rng.choice(["economy", "basic_economy"]),
        "flights": [flight],
        "created_at": created.isoformat(),
        "insurance": "yes" if insured else "no",
    }
    status = "cancelled" if case == "airline" else rng.choice(["available", "on time", "delayed"])
    if insured:
        cancel = why != "health"
    else:
        cancel = case in ("new", "business", "airline")
    text = rng.choice(["Please cancel {0}: {1}.", "I want to cancel reservation {0} because {1}.", "{1}, so cancel {0} for me."])
    return Desk(text.format(number, rng.choice(REASONS[why])), reservation, status, cancel)


def plan(desk):
    number = desk.reservation["reservation_id"]
    flight = desk.reservation["flights"][0]
    steps = [("get_reservation_details", {"reservation_id": number})]
    if desk.reservation["insurance"] == "no" and desk.reservation["cabin"] != "business":
        steps.append(("get_flight_status", {"flight_number": flight["flight_number"], "date": flight["date"]}))
    if desk.cancel:
        return [*steps, ("cancel_reservation", {"reservation_id": number}), "Your reservation has been cancelled."]
    return [*steps, "I am sorry, under our rules I cannot cancel this reservation."]


class Refused(Exception):
    pass


_KINDS = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict}


def _mistake(name, given):
    for tool in TOOLS:
        if tool["function"]["name"] != name:
            continue
        spec = tool["function"]["parameters"]
        for key in spec["required"]:
            if key not in given:
                return f"missing argument '{key}'"
        for key, value in given.items():
            if key not in spec["properties"]:
                return f"unexpected argument '{key}'"
            kind = spec["properties"][key].get("type", "string")
            if not isinstance(value, _KINDS[kind]) or (isinstance(value, bool) and kind != "boolean"):
                return f"argument '{key}' must be of type {kind}"
            allowed = spec["properties"][key].get("enum")
            if allowed and value not in allowed:
                return f"argument '{key}' must be one of {allowed}"
        return ""
    return f"unknown tool '{name}'"


NOW = []


def tools():
    return TOOLS


def reset(seed):
    NOW.clear()
    NOW.append(begin(int(seed)))
    return [{"role": "system", "content": POLICY}, {"role": "user", "content": NOW[0].request}]


def step(message):
    desk = NOW[0]
    desk.turns += 1
    calls = message.get("tool_calls") or []
    if not calls:
        desk.reply = message.get("content") or ""
        desk.finished = True
        return {"messages": [], "done": True, "truncated": False}
    answers = []
    for call in calls:
        given = call.get("arguments") or {}
        answer = {"role": "tool", "tool_call_id": call["id"], "tool_name": call["name"]}
        try:
            mistake = _mistake(call["name"], given)
            if mistake:
                raise Refused(mistake)
            answer["content"] = json.dumps(desk.call(call["name"], given))
        except Refused as refused:
            desk.errors += 1
            answer["content"] = json.dumps({"error": str(refused)})
            answer["is_error"] = True
        answers.append(answer)
    return {"messages": answers, "done": False, "truncated": desk.turns >= 24}


def verdict():
    desk = NOW[0]
    checks = [*desk.checks(), ("said_something", "protocol", desk.finished and bool(desk.reply.strip()), 0)]
    passed = all(one[2] for one in checks)
    points = sum(one[3] for one in checks if one[2]) / sum(one[3] for one in checks)
    value = 1.0 - 0.05 * desk.errors if passed else 0.5 * points - 0.05 * desk.errors
    return {
        "reward": float(max(0.0, 0.5 if passed else 0.0, min(1.0, value))),
        "success": bool(passed),
        "checks": [
            {"name": a, "kind": b, "passed": bool(c), "score": float(bool(c)), "gates": True, "detail": f"{a}: {bool(c)}"}
            for a, b, c, _ in checks
        ],
    }


def oracle(seed):
    turns = plan(begin(int(seed)))
    return [
        {"role": "assistant", "content": turn, "tool_calls": []}
        if isinstance(turn, str)
        else {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": f"o{n}", "name": turn[0], "arguments": turn[1]}],
        }
        for n, turn in enumerate(turns)
    ]
