"""Clinic reception: book a specialist only where a valid referral is on file."""

import json
import random
from dataclasses import dataclass, field

POLICY = """You are the reception of a clinic. Specialists may be booked only for patients whose referral to that department
is valid on the day of the visit. Look at the patient's referrals first. Without a valid one, put the patient on the list
for a general practitioner instead."""

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS = [
    _t("get_referrals", "Referrals of a patient.", ["patient_id"], patient_id="string"),
    _t("book_specialist", "Book a visit at a department.", ["patient_id", "department", "date"], patient_id="string", department="string", date="string"),
    _t("list_for_gp", "Put a patient on the list for a general practitioner.", ["patient_id"], patient_id="string"),
]

DEPARTMENTS = ["Cardiology", "Dermatology", "Neurology", "Urology", "Orthopaedics", "Oncology"]


@dataclass
class Reception:
    request: str
    patient: str
    department: str
    date: str
    referrals: list
    want: tuple
    reply: str = ""
    finished: bool = False
    turns: int = 0
    errors: int = 0
    looked: bool = False
    done: list = field(default_factory=list)

    def call(self, name, given):
        if given["patient_id"] != self.patient:
            raise Refused("unknown patient")
        if name == "get_referrals":
            self.looked = True
            return {"patient_id": self.patient, "referrals": self.referrals}
        if name == "book_specialist" and given["department"].title() not in DEPARTMENTS:
            raise Refused("unknown department")
        self.done.append((name, given.get("department", "").title(), given.get("date", ""), self.looked))
        return {"status": "booked" if name == "book_specialist" else "listed"}

    def checks(self):
        looked = self.looked and all(one[3] for one in self.done)
        right = looked and [one[:3] for one in self.done] == [self.want]
        return [("looked", "action", looked, 1), ("booked", "state", right, 3)]


def begin(seed):
    rng = random.Random(seed * 31 + 7)
    department = rng.choice(DEPARTMENTS)
    patient = f"P-{rng.randint(10, 99)}-{rng.randint(1000, 9999)}"
    day = rng.randint(10, 24)
    date = f"2025-06-{day}"
    valid = seed % 2 == 0
    until = f"2025-06-{rng.randint(day, 30)}" if valid else f"2025-06-0{rng.randint(1, 9)}"
    mine = {"department": department, "issued": f"2025-0{rng.randint(1, 4)}-11", "valid_until": until}
    other = {"department": rng.choice([d for d in DEPARTMENTS if d != department]), "issued": "2025-03-02", "valid_until": "2025-12-31"}
    referrals = [mine, other] if rng.random() < 0.5 else [other, mine] if rng.random() < 0.8 or valid else [other]
    word = department if valid else department.lower()
    text = rng.choice(["I need a visit at {d} on {t}. Patient {p}.", "{p} here: is {d} free on {t}? Then please book me.", "Book {d} for {t}, patient number {p}."])
    want = ("book_specialist", department, date) if valid else ("list_for_gp", "", "")
    return Reception(text.format(d=word, t=date, p=patient), patient, department, date, referrals, want)


def plan(desk):
    look = ("get_referrals", {"patient_id": desk.patient})
    if desk.want[0] == "list_for_gp":
        return [look, ("list_for_gp", {"patient_id": desk.patient}), "You are on the list of a general practitioner."]
    book = ("book_specialist", {"patient_id": desk.patient, "department": desk.department, "date": desk.date})
    return [look, book, "You are booked."]


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
