"""Telecom: escalate with a transfer when the line cannot be helped."""

import json
import random
from dataclasses import dataclass, field

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """# Telecom Agent Policy
The current time is 2025-02-25 12:08:00 EST.
A suspended line whose bills are all paid may be resumed. A line with an overdue bill that the user disputes must be
transferred to a human agent; call transfer_to_human_agents yourself, with a summary of the user's issue. Look the bills
up before."""

TOOLS = [
    _t("get_bills_for_customer", "Bills, most recent first.", ["customer_id"], customer_id="string"),
    _t("resume_line", "Resumes a suspended line.", ["customer_id", "line_id"], customer_id="string", line_id="string"),
    _t("transfer_to_human_agents", "Transfer the user to a human agent, with a summary of the user's issue.", ["summary"], summary="string"),
]


@dataclass
class Hotline:
    request: str
    customer: str
    line: str
    bills: list
    escalate: bool
    reply: str = ""
    finished: bool = False
    turns: int = 0
    errors: int = 0
    looked: bool = False
    made: list = field(default_factory=list)

    def call(self, name, given):
        if name == "transfer_to_human_agents":
            self.made.append(("transfer", given["summary"]))
            return "Transfer successful"
        if given["customer_id"] != self.customer:
            raise Refused("Customer not found")
        if name == "get_bills_for_customer":
            self.looked = True
            return self.bills
        if given["line_id"] != self.line:
            raise Refused("Line not found")
        self.made.append(("resume", self.looked))
        return {"line_id": self.line, "status": "Active"}

    def checks(self):
        if self.escalate:
            right = self.made == [("transfer", f"Overdue bill disputed by customer {self.customer}.")]
        else:
            right = self.made == [("resume", True)]
        return [("bills_read", "action", self.looked, 1), ("handled", "state", right and self.looked, 2)]


def begin(seed):
    rng = random.Random(seed * 101)
    customer, line = f"C{rng.randint(1000, 9999)}", f"L{rng.randint(1000, 9999)}"
    escalate = seed % 2 == 1
    bills = [
        {"bill_id": f"B{rng.randint(1000, 9999)}", "status": "Paid", "total_due": rng.randint(3000, 12000) / 100} for _ in range(rng.randint(1, 4))
    ]
    if escalate:
        rng.choice(bills)["status"] = "Overdue"
    text = rng.choice(
        [
            "Line {l} does not work, and do not tell me of bills, I owe nothing. ({c})",
            "I am {c}. Turn {l} on again! Whatever your papers say, I do not owe you anything.",
            "{c}, line {l}: no service since Monday. I dispute any open bill you may have.",
        ]
    )
    return Hotline(text.format(l=line, c=customer), customer, line, bills, escalate)


def plan(desk):
    look = ("get_bills_for_customer", {"customer_id": desk.customer})
    if desk.escalate:
        note = f"Overdue bill disputed by customer {desk.customer}."
        return [look, ("transfer_to_human_agents", {"summary": note}), "YOU ARE BEING TRANSFERRED TO A HUMAN AGENT. PLEASE HOLD ON."]
    return [look, ("resume_line", {"customer_id": desk.customer, "line_id": desk.line}), "Your line is active again."]


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
