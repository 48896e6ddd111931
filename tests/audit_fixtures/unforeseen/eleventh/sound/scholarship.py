"""Applications for a scholarship, told in nested JSON; dataclasses."""

import json
import random
from dataclasses import dataclass, field

TEXT = """# Scholarship office

Read an application before you decide on it; decide once; then write a closing line to the clerk.

* An application is granted (grant) when the average grade is 1.7 or better (1.0 is best) and the yearly income of the household is below 40000.
* For applicants who bring up a child the income may be up to 52000.
* Anything else is declined (decline)."""


@dataclass
class Case:
    number: str
    grade: float
    income: int
    child: bool
    subject: str
    request: str
    read: bool = False
    decided: list = field(default_factory=list)
    slips: int = 0
    over: bool = False
    turns: int = 0

    def verdict_due(self):
        limit = 52001 if self.child else 40000
        return "grant" if self.grade <= 1.7 and self.income < limit else "decline"


def build(seed):
    r = random.Random(seed ^ 0x5A5A)
    number = f"{r.randrange(2023, 2027)}/{r.randrange(10000, 100000)}"
    child = r.random() < 0.5
    grade = r.choice([1.7, 1.8, round(r.uniform(1.0, 1.6), 1), round(r.uniform(1.0, 1.6), 1), round(r.uniform(1.0, 1.6), 1), round(r.uniform(1.9, 3.2), 1)])
    income = r.choice([r.randrange(9000, 39900), r.randrange(22000, 39900), r.randrange(40100, 51900), r.randrange(40100, 51900), r.randrange(52100, 80000), 40000, 39999])
    request = r.choice(["Application {}, please.", "Could you decide on {}?", "{} has been waiting for weeks now.", "Next one: {}.", "The committee asks about {}."]).format(number)
    return Case(number, grade, income, child, r.choice(["law", "physics", "music", "history", "nursing"]), request)


case = build(0)


def tools():
    p = {"type": "object", "properties": {"application": {"type": "string"}}, "required": ["application"]}
    named = {"read_application": "Read an application.", "grant": "Grant a scholarship.", "decline": "Decline a scholarship."}
    return [{"type": "function", "function": {"name": n, "description": d, "parameters": p}} for n, d in named.items()]


def reset(seed):
    global case
    case = build(seed)
    return [{"role": "system", "content": TEXT}, {"role": "user", "content": case.request}]


def one(call):
    if call["name"] not in {"read_application", "grant", "decline"} or call["arguments"] != {"application": case.number}:
        case.slips += 1
        return {"ok": False, "reason": "invalid call"}
    if call["name"] == "read_application":
        case.read = True
        return {"ok": True, "application": {"number": case.number, "student": {"subject": case.subject, "average_grade": case.grade}, "household": {"income": case.income, "child": case.child}}}
    case.decided.append((call["name"], case.read))
    return {"ok": True}


def step(message):
    case.turns += 1
    calls = message.get("tool_calls") or []
    told = []
    for call in calls:
        value = one(call)
        told.append({"role": "tool", "tool_call_id": call["id"], "tool_name": call["name"], "content": json.dumps(value, indent=1), "is_error": not value["ok"]})
    case.over = not calls
    return {"messages": told, "done": case.over, "truncated": not case.over and case.turns >= 12}


def verdict():
    good = case.decided == [(case.verdict_due(), True)]
    ok = good and case.over
    reward = 1.0 if ok else max(0.0, (0.65 if good else 0.2 if case.read and not case.decided else 0.0) - 0.1 * case.slips)
    return {"reward": reward, "success": ok, "checks": [{"name": "decision", "kind": "action", "passed": good, "score": None, "gates": True, "detail": ""}, {"name": "closed", "kind": "protocol", "passed": case.over, "score": None, "gates": True, "detail": ""}]}


def oracle(seed):
    c = build(seed)
    act = c.verdict_due()
    calls = [[{"id": "r", "name": "read_application", "arguments": {"application": c.number}}], [{"id": "d", "name": act, "arguments": {"application": c.number}}]]
    return [*({"role": "assistant", "content": "", "tool_calls": own} for own in calls), {"role": "assistant", "content": "It is granted." if act == "grant" else "It had to be declined.", "tool_calls": []}]
