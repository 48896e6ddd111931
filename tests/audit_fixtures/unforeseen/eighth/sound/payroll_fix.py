"""Payroll: an entry that does not agree with its timesheet is reversed and posted anew, unless its month is closed."""

from __future__ import annotations

import json
import random
from typing import Any

POLICY = (
    "You look after the payroll ledger of a contractor.\n\n"
    "Somebody who complains about a month's pay is checked against the timesheet of that month: pay is hours times "
    "hourly rate.\n"
    "* Where the entry does not agree, reverse it, then post a new entry with the right amount for the same month.\n"
    "* Entries of a month that is closed are not touched: open a case with accounting instead.\n"
    "* Where the entry agrees, change nothing and explain it.\n"
    "Amounts are in euros with two decimals."
)
MONTHS = ["2024-01", "2024-02", "2024-03", "2024-04", "2024-05", "2024-06"]
NAMED = dict(zip(MONTHS, ["January", "February", "March", "April", "May", "June"]))
COMPLAINTS = [
    "I think my pay for {m} is wrong. I am {e}.",
    "{e} here. Could you check what I was paid in {m}?",
    "Something is off with {m}. Employee number {e}.",
    "The money for {m} surprised me (staff no. {e}). Please have a look and put it right if need be.",
    "Hello, {e}, about my {m} salary: is that correct?",
]


def param(kind: str, text: str) -> dict[str, str]:
    return {"type": kind, "description": text}


EMPLOYEE, MONTH = param("string", "employee number"), param("string", "month as YYYY-MM")
SIGNATURES: dict[str, tuple[str, dict[str, dict[str, str]]]] = {
    "list_entries": ("List the ledger entries of an employee", {"employee": EMPLOYEE}),
    "get_timesheet": ("Get hours and hourly rate of a month", {"employee": EMPLOYEE, "month": MONTH}),
    "reverse_entry": ("Reverse a ledger entry", {"entry": param("string", "entry number")}),
    "post_entry": (
        "Post a new pay entry",
        {"employee": EMPLOYEE, "month": MONTH, "amount": param("number", "in euros")},
    ),
    "open_case": ("Open a case with accounting", {"employee": EMPLOYEE, "month": MONTH}),
}
KINDS = {"string": str, "number": (int, float)}


class Refused(Exception):
    """A call that cannot be carried out."""


class Ledger:
    """All that one episode is about."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        rng.random()
        self.employee = f"E{rng.randint(10000, 99999)}"
        self.months = MONTHS[: rng.randint(3, 6)]
        self.month = rng.choice(self.months)
        self.case = rng.choices(["wrong", "right", "closed"], [45, 35, 20])[0]
        rate = rng.randint(60, 180) / 4
        self.sheets = {m: (rng.randint(180, 340) / 2, rate) for m in self.months}
        self.entries: dict[str, dict[str, Any]] = {}
        numbers = rng.sample(range(100000, 999999), len(self.months))
        for number, month in zip(numbers, self.months):
            pay = self.pay(month)
            if month == self.month and self.case != "right":
                pay = round(pay + rng.choice([-1, 1]) * rng.randint(2, 60) * rate / 4, 2)
            closed = self.case == "closed" and month <= self.month or rng.random() < 0.3 and month < self.month
            status = "closed" if closed else "open"
            self.entries[str(number)] = {"month": month, "amount": pay, "period": status}
        self.number = next(n for n, e in self.entries.items() if e["month"] == self.month)
        self.request = rng.choice(COMPLAINTS).format(m=NAMED[self.month], e=self.employee)
        self.events: list[tuple[Any, ...]] = []
        self.looks: set[str] = set()
        self.faults = 0
        self.words = ""
        self.steps = 0

    def pay(self, month: str) -> float:
        hours, rate = self.sheets[month]
        return round(hours * rate, 2)

    def wanted(self) -> list[tuple[Any, ...]]:
        if self.case == "right":
            return []
        if self.case == "closed":
            return [("open_case", self.month)]
        return [("reverse_entry", self.number), ("post_entry", self.month, self.pay(self.month))]

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        if name not in SIGNATURES:
            raise Refused(f"function {name} does not exist")
        fields = SIGNATURES[name][1]
        for key in fields:
            if key not in arguments:
                raise Refused(f"parameter {key} is missing")
        for key, value in arguments.items():
            if key not in fields:
                raise Refused(f"parameter {key} is unknown")
            if not isinstance(value, KINDS[fields[key]["type"]]) or isinstance(value, bool):
                raise Refused(f"parameter {key} must be a {fields[key]['type']}")
        if arguments.get("employee", self.employee) != self.employee:
            raise Refused("employee not found")
        if arguments.get("month", self.month) not in self.months:
            raise Refused("no data for this month")
        return HANDLERS[name](self, **arguments)


def list_entries(ledger: Ledger, employee: str) -> Any:
    ledger.looks.add("entries")
    return [{"entry": n, **e} for n, e in ledger.entries.items()]


def get_timesheet(ledger: Ledger, employee: str, month: str) -> Any:
    ledger.looks.add(f"sheet {month}")
    hours, rate = ledger.sheets[month]
    return {"month": month, "hours": hours, "hourly_rate": rate}


def reverse_entry(ledger: Ledger, entry: str) -> Any:
    if entry not in ledger.entries:
        raise Refused("entry not found")
    if ledger.entries[entry]["period"] == "closed":
        raise Refused("the period of this entry is closed")
    ledger.entries[entry]["period"] = "reversed"
    ledger.events.append(("reverse_entry", entry))
    return {"entry": entry, "reversed": True}


def post_entry(ledger: Ledger, employee: str, month: str, amount: float) -> Any:
    if not 0 < amount < 1_000_000:
        raise Refused("amount out of range")
    ledger.events.append(("post_entry", month, round(amount, 2)))
    return {"month": month, "posted": round(amount, 2)}


def open_case(ledger: Ledger, employee: str, month: str) -> Any:
    ledger.events.append(("open_case", month))
    return {"case": "opened", "month": month}


HANDLERS = {
    "list_entries": list_entries,
    "get_timesheet": get_timesheet,
    "reverse_entry": reverse_entry,
    "post_entry": post_entry,
    "open_case": open_case,
}
BOOK: list[Ledger] = []


def tools() -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": text,
                "parameters": {"type": "object", "properties": fields, "required": [*fields]},
            },
        }
        for name, (text, fields) in SIGNATURES.items()
    ]


def reset(seed: int) -> list[dict[str, Any]]:
    BOOK[:] = [Ledger(seed)]
    return [{"role": "system", "content": POLICY}, {"role": "user", "content": BOOK[0].request}]


def step(message: dict[str, Any]) -> dict[str, Any]:
    ledger = BOOK[0]
    ledger.steps += 1
    messages = []
    for call in message.get("tool_calls") or []:
        entry = {"role": "tool", "tool_call_id": call["id"], "tool_name": call["name"]}
        try:
            entry["content"] = json.dumps(ledger.call(call["name"], call["arguments"]))
        except Refused as reason:
            ledger.faults += 1
            entry |= {"content": json.dumps({"error": str(reason)}), "is_error": True}
        messages.append(entry)
    if messages:
        return {"messages": messages, "done": False, "truncated": ledger.steps > 12}
    ledger.words = message.get("content") or ""
    return {"messages": [], "done": True, "truncated": False}


def verdict() -> dict[str, Any]:
    ledger = BOOK[0]
    looked = {"entries", f"sheet {ledger.month}"} <= ledger.looks
    right = ledger.events == ledger.wanted()
    on_the_way = ledger.events == ledger.wanted()[: len(ledger.events)]
    explained = len(ledger.words.split()) >= 2
    score = 0.0
    if on_the_way:
        score = 0.1 * len(ledger.looks & {"entries", f"sheet {ledger.month}"})
        score += 0.15 * len(ledger.events) if looked else 0.0
    score = max(0.0, score - 0.05 * ledger.faults)
    success = looked and right and explained
    return {
        "reward": 1.0 if success else score,
        "success": success,
        "checks": [
            {"name": "looked at both", "kind": "action", "passed": looked, "score": None, "gates": True, "detail": ""},
            {"name": "ledger", "kind": "state", "passed": right, "score": None, "gates": True, "detail": ""},
            {"name": "explained", "kind": "communicate", "passed": explained, "score": None, "gates": True, "detail": ""},
        ],
    }


def oracle(seed: int) -> list[dict[str, Any]]:
    ledger = Ledger(seed)
    who = {"employee": ledger.employee}
    plan: list[tuple[str, dict[str, Any]]] = [
        ("list_entries", who),
        ("get_timesheet", {**who, "month": ledger.month}),
    ]
    words = "Your pay agrees with your timesheet, so nothing had to be changed."
    if ledger.case == "wrong":
        amount = ledger.pay(ledger.month)
        plan += [
            ("reverse_entry", {"entry": ledger.number}),
            ("post_entry", {**who, "month": ledger.month, "amount": amount}),
        ]
        words = "You were right: the entry was reversed and posted again with the right amount."
    elif ledger.case == "closed":
        plan.append(("open_case", {**who, "month": ledger.month}))
        words = "The month is closed already, so accounting has a case for it now."
    return [
        *(
            {"role": "assistant", "content": None, "tool_calls": [{"id": f"p{i}", "name": n, "arguments": a}]}
            for i, (n, a) in enumerate(plan)
        ),
        {"role": "assistant", "content": words, "tool_calls": []},
    ]
