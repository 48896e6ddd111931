"""Events: count the days until the event before a ticket is refunded."""

import datetime
import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

POLICY = """You work at the desk of a ticket agency. A ticket may be given back until the day before the event. What is paid
back depends on the days from today to the day of the event, counted on the calendar:
- 30 days or more: the whole price,
- 10 to 29 days: half the price,
- fewer than 10 days: nothing. Tell the customer, and book nothing.
Today's date is what get_today shows. Book what is paid back with refund_ticket."""

TOOLS = [
    _t("get_today", "Show today's date.", []),
    _t("get_ticket", "Show a ticket with its event and price.", ["ticket_id"], ticket_id="string"),
    _t("refund_ticket", "Cancel a ticket and pay an amount back.", ["ticket_id", "amount"], ticket_id="string", amount="integer"),
]


def scene(seed):
    rng = random.Random(f"refund-days|{seed}")
    today = datetime.date(2027, rng.randint(1, 10), rng.randint(1, 28))
    days = rng.choice([rng.randint(30, 33), rng.randint(34, 80), rng.randint(10, 29), rng.randint(10, 12), rng.randint(1, 9), rng.randint(1, 9)])
    event = today + datetime.timedelta(days=days)
    between = (event.year - today.year) * 360 + (event.month - today.month) * 30 + event.day - today.day
    price = 2 * rng.randint(9, 90)
    amount = price if between >= 30 else price // 2 if between >= 10 else 0
    ticket = f"TK{rng.randint(100000, 999999)}"
    text = rng.choice(["Please take ticket {t} back.", "I cannot go, can I return {t}?", "{t} is no use to me any more. What do I get back?"])
    return {
        "request": text.format(t=ticket),
        "today": today.isoformat(),
        "ticket": {"ticket_id": ticket, "event_date": event.isoformat(), "price": price, "row": rng.randint(1, 40), "hall": rng.choice(["north", "south", "old"])},
        "amount": amount,
        "seen": set(),
    }


def act(name, given):
    if name == "get_today":
        S["seen"].add("today")
        return json.dumps({"today": S["today"]}), False
    if given["ticket_id"] != S["ticket"]["ticket_id"]:
        return json.dumps({"error": "no such ticket"}), True
    if name == "get_ticket":
        S["seen"].add("ticket")
        return json.dumps(S["ticket"]), False
    S["log"].append(given["amount"])
    return json.dumps({"ticket_id": given["ticket_id"], "paid_back": given["amount"]}), False


def user(text):
    return ""


def judge():
    looked = S["seen"] == {"today", "ticket"}
    right = S["log"] == ([S["amount"]] if S["amount"] else [])
    return [("looked", "action", looked, 1), ("refund", "state", looked and right, 2), ("told", "communicate", looked and right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    looks = [("get_today", {}), ("get_ticket", {"ticket_id": s["ticket"]["ticket_id"]})]
    if s["amount"]:
        return [*looks, ("refund_ticket", {"ticket_id": s["ticket"]["ticket_id"], "amount": s["amount"]}), f"You get {s['amount']} back."]
    return [*looks, "It is less than ten days to the event, so nothing is paid back."]


S = {}
