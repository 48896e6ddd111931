"""Airline: cancel only when one of the conditions of the rule holds."""

import json
import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """# Airline Agent Policy
The current time is 2024-05-15 15:00:00 EST.
If any portion of the flight has already been flown, you cannot help: transfer the user. Otherwise a reservation can be
cancelled if any of the following is true:
- the booking was made within the last 24 hrs
- the flight is cancelled by the airline
- it is a business flight
- the user has travel insurance and the reason is health or weather.
Otherwise deny the request. The API does not check these rules. The user has confirmed the cancellation."""

TOOLS = [
    _t("get_user_details", "Get the details of a user.", ["user_id"], user_id="string"),
    _t("get_reservation_details", "Get the details of a reservation.", ["reservation_id"], reservation_id="string"),
    _t("get_flight_status", "Get the status of a flight.", ["flight_number", "date"], flight_number="string", date="string"),
    _t("cancel_reservation", "Cancel the whole reservation.", ["reservation_id"], reservation_id="string"),
    _t("transfer_to_human_agents", "Transfer the user to a human agent.", ["summary"], summary="string"),
]

CLOCK = datetime(2024, 5, 15, 15)
COVERED = ["I am in hospital", "I have caught the flu", "a hurricane is on its way there", "they expect heavy snow"]
OTHER = ["my meeting was called off", "I found a better offer", "I do not feel like it any more"]
CASES = ["new", "none", "airline", "reason", "business", "none", "insured", "none", "new", "uninsured", "insured", "flown"]


@dataclass
class Counter:
    request: str
    record: dict
    status: str
    want: str
    enough: tuple
    reply: str = ""
    finished: bool = False
    turns: int = 0
    errors: int = 0
    seen: set = field(default_factory=set)
    made: list = field(default_factory=list)

    def call(self, name, given):
        r = self.record
        if name == "transfer_to_human_agents":
            self.made.append(("transfer", set(self.seen)))
            return "Transfer successful"
        if name == "get_user_details":
            if given["user_id"] != r["user_id"]:
                raise Refused("User not found")
            return {"user_id": r["user_id"], "membership": "silver", "reservations": [r["reservation_id"]]}
        if name == "get_flight_status":
            if (given["flight_number"], given["date"]) != (r["flights"][0]["flight_number"], r["flights"][0]["date"]):
                raise Refused("Flight not found")
            self.seen.add("status")
            return self.status
        if given["reservation_id"] != r["reservation_id"]:
            raise Refused("Reservation not found")
        if name == "get_reservation_details":
            self.seen.add("record")
            return r
        self.made.append(("cancel", set(self.seen)))
        return {**r, "status": "cancelled"}

    def checks(self):
        looked = set(self.enough) <= self.seen and all(set(self.enough) <= seen for _, seen in self.made)
        right = looked and [n for n, _ in self.made] == ([] if self.want == "deny" else [self.want])
        return [("facts_read", "action", looked, 1), ("rule", "state", right, 3)]


def begin(seed):
    rng = random.Random(f"rule {seed}")
    case = CASES[seed % 12]
    number = "".join(rng.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") for _ in range(6))
    hours = rng.choice([1, 5, 12, 23]) if case == "new" else rng.choice([25, 30, 47, 100, 300])
    flown = case == "flown"
    flight = {"flight_number": f"HAT{rng.randint(100, 299)}", "date": f"2024-05-{rng.randint(10, 14) if flown else rng.randint(17, 29)}"}
    record = {
        "reservation_id": number,
        "user_id": f"{rng.choice(['ida', 'jan', 'kai'])}_{rng.choice(['lund', 'mora'])}_{rng.randint(1000, 9999)}",
        "cabin": "business" if case == "business" or (flown and rng.random() < 0.5) else rng.choice(["economy", "basic_economy"]),
        "flights": [flight],
        "created_at": (CLOCK - timedelta(hours=hours)).isoformat(),
        "insurance": "yes" if case in ("insured", "reason") or (flown and rng.random() < 0.5) else "no",
    }
    status = "cancelled" if case == "airline" else "landed" if flown else rng.choice(["available", "on time", "delayed"])
    # Illness is claimed with and without insurance, other reasons too.
    ill = case in ("insured", "uninsured") or (case != "reason" and rng.random() < 0.5)
    want = "transfer" if flown else "cancel" if case in ("new", "airline", "business", "insured") else "deny"
    enough = ("record",) if case in ("new", "business", "insured") else ("record", "status")
    if flown:
        enough = ("record",)
    text = rng.choice(["Please cancel {r} of {u}: {w}.", "I am {u}, {w}. Cancel {r}.", "{u}. Reservation {r} has to be cancelled, {w}."])
    return Counter(text.format(r=number, u=record["user_id"], w=rng.choice(COVERED if ill else OTHER)), record, status, want, enough)


def plan(desk):
    key, flight = {"reservation_id": desk.record["reservation_id"]}, desk.record["flights"][0]
    steps = [("get_reservation_details", key)]
    if "status" in desk.enough:
        steps.append(("get_flight_status", {"flight_number": flight["flight_number"], "date": flight["date"]}))
    if desk.want == "cancel":
        return [*steps, ("cancel_reservation", key), "The reservation is cancelled."]
    if desk.want == "transfer":
        return [*steps, ("transfer_to_human_agents", {"summary": "partly flown"}), "YOU ARE BEING TRANSFERRED TO A HUMAN AGENT. PLEASE HOLD ON."]
    return [*steps, "I am sorry, none of the conditions for a cancellation is met."]


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
