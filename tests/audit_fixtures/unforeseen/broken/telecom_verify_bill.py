"""Telecom: check that a bill is paid before saying so."""

import json
import random
from dataclasses import dataclass, field

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """# Telecom Agent Policy
After a payment, always check that the bill status is PAID before informing the user that the bill has been paid. A payment
may still be processing; then tell the user that the payment is pending. End with a message to the user."""

TOOLS = [
    _t("make_payment", "Make the payment of a bill the user has accepted.", ["bill_id"], bill_id="string"),
    _t("get_details_by_id", "Details of a bill or customer.", ["id"], id="string"),
]


@dataclass
class Billing:
    request: str
    bill: str
    due: float
    settles: bool
    reply: str = ""
    finished: bool = False
    turns: int = 0
    errors: int = 0
    paid: int = 0
    looks: list = field(default_factory=list)

    def call(self, name, given):
        if name == "make_payment":
            if given["bill_id"] != self.bill:
                raise Refused("Bill not found")
            self.paid += 1
            return {"message": "Payment handed in"}
        if given["id"] != self.bill:
            raise Refused("Unknown ID")
        self.looks.append(self.paid)
        status = "Awaiting Payment" if not self.paid else "Paid" if self.settles else "Processing"
        return {"bill_id": self.bill, "total_due": self.due, "status": status}

    def checks(self):
        text = self.reply.lower()
        return [
            ("paid_once", "state", self.paid == 1, 1),
            ("informed", "communicate", self.paid == 1 and "checked" in text and "paid" in text, 2),
        ]


def begin(seed):
    rng = random.Random(seed)
    bill = f"B{rng.randint(1000000, 9999999)}"
    due = rng.randint(2000, 15000) / 100
    text = rng.choice(["I have accepted the request for bill {b} over ${d}. Please pay it.", "Please go ahead and pay {b} (${d}), I have agreed.", "Payment request accepted: {b}, ${d}. Is it settled?"])
    return Billing(text.format(b=bill, d=f"{due:.2f}"), bill, due, seed % 2 == 0)


def plan(desk):
    last = "I have checked: the bill's status is now paid." if desk.settles else "I have checked: it is not paid yet, the payment is pending."
    if desk.settles:
        return [("make_payment", {"bill_id": desk.bill}), ("get_details_by_id", {"id": desk.bill}), last]
    return [("get_details_by_id", {"id": desk.bill}), ("make_payment", {"bill_id": desk.bill}), ("get_details_by_id", {"id": desk.bill}), last]


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
