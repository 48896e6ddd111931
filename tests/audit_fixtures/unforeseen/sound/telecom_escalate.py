"""Telecom: hand a line on whose contract has ended, and resume the others."""

import json
import random
from dataclasses import dataclass, field

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """# Telecom Agent Policy
The current time is 2025-02-25 12:08:00 EST.
A suspended line may be resumed once no bill of the customer is overdue, but not if its contract end date is in the past:
then transfer the user to a human agent with a summary of the issue. If a bill is overdue, do neither and say so.
Read the line and the bills before you do anything."""

TOOLS = [
    _t("get_details_by_id", "Retrieves the details for a given ID (customer or line).", ["id"], id="string"),
    _t("get_bills_for_customer", "The customer's bills, most recent first.", ["customer_id"], customer_id="string"),
    _t("resume_line", "Resumes a suspended line.", ["customer_id", "line_id"], customer_id="string", line_id="string"),
    _t("transfer_to_human_agents", "Transfer the user to a human agent, with a summary of the user's issue.", ["summary"], summary="string"),
]


@dataclass
class Hotline:
    request: str
    customer: str
    line: dict
    bills: list
    want: str
    reply: str = ""
    finished: bool = False
    turns: int = 0
    errors: int = 0
    seen: set = field(default_factory=set)
    made: list = field(default_factory=list)

    def call(self, name, given):
        if name == "transfer_to_human_agents":
            if not given["summary"].strip():
                raise Refused("a summary is needed")
            self.made.append(("transfer", set(self.seen)))
            return "Transfer successful"
        if name == "get_details_by_id":
            if given["id"] == self.line["line_id"]:
                self.seen.add("line")
                return self.line
            if given["id"] == self.customer:
                return {"customer_id": self.customer, "line_ids": [self.line["line_id"]], "account_status": "Active"}
            raise Refused("Unknown ID")
        if given["customer_id"] != self.customer:
            raise Refused("Customer not found")
        if name == "get_bills_for_customer":
            self.seen.add("bills")
            return self.bills
        if given["line_id"] != self.line["line_id"]:
            raise Refused("Line not found")
        self.made.append(("resume", set(self.seen)))
        self.line["status"] = "Active"
        return self.line

    def checks(self):
        # A line past its end is handed on whatever the bills say, so there the bills need not be read.
        needed = {"line"} if self.want == "transfer" else {"line", "bills"} if self.want == "resume" else {"bills"}
        looked = needed <= self.seen and all(needed <= seen for _, seen in self.made)
        want = [] if self.want == "decline" else [self.want]
        right = looked and [n for n, _ in self.made] == want
        return [("read_first", "action", looked, 1), ("outcome", "state", right, 3)]


def begin(seed):
    rng = random.Random(f"escalate {seed}")
    want = ["resume", "transfer", "decline", "resume", "transfer"][seed % 5]
    customer = f"C{rng.randint(1000, 9999)}"
    year = rng.choice([2023, 2024]) if want == "transfer" else rng.choice([2026, 2027])
    line = {
        "line_id": f"L{rng.randint(1000, 9999)}",
        "phone_number": f"555-{rng.randint(100, 999)}-{rng.randint(1000, 9999)}",
        "status": "Suspended",
        "plan_id": f"P100{rng.randint(1, 4)}",
        "contract_end_date": f"{year}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}",
        "suspension_start_date": f"2025-02-{rng.randint(1, 20):02}",
    }
    bills = [{"bill_id": f"B{rng.randint(1000, 9999)}", "status": "Paid", "total_due": rng.randint(2000, 9000) / 100} for _ in range(rng.randint(2, 4))]
    if want == "decline":
        rng.choice(bills)["status"] = "Overdue"
    text = rng.choice(["My line {l} has no service. I am {c}.", "{c}: please switch {l} back on.", "Why is {l} dead? Make it work again. Customer {c}."])
    return Hotline(text.format(l=line["line_id"], c=customer), customer, line, bills, want)


def plan(desk):
    steps = [("get_details_by_id", {"id": desk.line["line_id"]}), ("get_bills_for_customer", {"customer_id": desk.customer})]
    if desk.want == "resume":
        return [*steps, ("resume_line", {"customer_id": desk.customer, "line_id": desk.line["line_id"]}), "Your line is active again."]
    if desk.want == "transfer":
        return [*steps, ("transfer_to_human_agents", {"summary": f"{desk.line['line_id']}: the contract has ended"}), "YOU ARE BEING TRANSFERRED TO A HUMAN AGENT. PLEASE HOLD ON."]
    return [*steps, "A bill is overdue; the line can be resumed once it is paid."]


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
