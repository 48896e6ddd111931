"""Fees of visas, told in XML; the deed is a listed value. A small class with a ledger."""

import random

TEXT = (
    "Consulate, fees. Set the fee of an application with set_fee: one of full, half, none. Students pay half. Children under twelve pay none. Applicants over 70 pay half as well. "
    "Diplomats pay none, whatever their age. Everybody else pays full. Open the application before, set the fee once, and confirm."
)
FEES = ["full", "half", "none"]


class Desk:
    def __init__(self, seed):
        r = random.Random(seed + 5)
        self.key = f"V-{r.randrange(100, 999)}-{r.randrange(100, 999)}"
        self.purpose = r.choice(["study", "work", "visit", "visit"])
        self.group = r.choice(["student", "diplomat", "other", "other", "other"])
        self.age = r.choice([11, 12, 70, 71, r.randrange(1, 11), r.randrange(13, 69), r.randrange(72, 90), r.randrange(18, 60), r.randrange(18, 60)])
        if self.group == "student":
            self.age = r.randrange(18, 40)
        elif self.group == "diplomat":
            self.age = r.randrange(26, 80)
        self.line = r.choice(["Application {}, please.", "What is the fee of {}?", "{} wants to pay now.", "Fee for {}, thanks."]).format(self.key)
        self.opened, self.ledger, self.slips, self.closed, self.turn = False, [], 0, False, 0

    def fee(self):
        if self.group == "diplomat" or self.age < 12:
            return "none"
        return "half" if self.group == "student" or self.age > 70 else "full"

    def take(self, c):
        a = c["arguments"]
        if c["name"] == "open_application" and a == {"application": self.key}:
            self.opened = True
            return f'<application key="{self.key}" purpose="{self.purpose}"><applicant><age>{self.age}</age><group>{self.group}</group></applicant></application>', False
        if c["name"] == "set_fee" and set(a) == {"application", "fee"} and a["application"] == self.key and a["fee"] in FEES:
            self.ledger.append((a["fee"], self.opened))
            return "<set/>", False
        self.slips += 1
        return "<error>not possible</error>", True


D = None


def tools():
    key = {"type": "string"}
    return [
        {"type": "function", "function": {"name": "open_application", "description": "Open an application.", "parameters": {"type": "object", "properties": {"application": key}, "required": ["application"]}}},
        {"type": "function", "function": {"name": "set_fee", "description": "Set the fee of an application.", "parameters": {"type": "object", "properties": {"application": key, "fee": {"type": "string", "enum": FEES}}, "required": ["application", "fee"]}}},
    ]


def reset(seed):
    global D
    D = Desk(seed)
    return [{"role": "system", "content": TEXT}, {"role": "user", "content": D.line}]


def step(message):
    D.turn += 1
    out = []
    for c in message.get("tool_calls") or []:
        text, bad = D.take(c)
        out.append({"role": "tool", "tool_call_id": c["id"], "tool_name": c["name"], "content": text, **({"is_error": True} if bad else {})})
    D.closed = not out
    return {"messages": out, "done": not out, "truncated": bool(out) and D.turn >= 12}


def verdict():
    good = D.ledger == [(D.fee(), True)]
    win = good and D.closed
    w = 1.0 if win else max(0.0, (0.6 if good else 0.2 if D.opened and not D.ledger else 0.0) - 0.1 * D.slips)
    return {"reward": w, "success": win, "checks": [{"name": "fee", "kind": "state", "passed": win, "score": None, "gates": True, "detail": ""}]}


def oracle(seed):
    d = Desk(seed)
    return [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "o", "name": "open_application", "arguments": {"application": d.key}}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "s", "name": "set_fee", "arguments": {"application": d.key, "fee": d.fee()}}]},
        {"role": "assistant", "content": "The fee has been set."},
    ]
