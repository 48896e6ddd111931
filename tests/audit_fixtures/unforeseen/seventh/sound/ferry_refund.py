"""Ferries: a share of a fare by the hours that are left, over time zones, and rounded."""

import datetime
import json
import random


def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You give fares of a ferry line back. How much of it depends on the time that is left until the ferry sails:
- 48 hours or more: the whole fare
- from 12 hours to less than 48: half of it, rounded down to 5 cents
- less than 12 hours: nothing; then refund nothing and tell the passenger so

Tickets show the local time of the port that a ferry leaves from; get_port shows how far a port is ahead of UTC. get_time is in UTC. Fares are in euros."""

TOOLS = [
    _t("get_time", "Show what time it is, in UTC.", []),
    _t("get_ticket", "Show a ticket.", ["ticket"], ticket="string"),
    _t("get_port", "Show a port.", ["port"], port="string"),
    _t("refund", "Give money back for a ticket.", ["ticket", "amount"], ticket="string", amount={"type": "number", "description": "In euros."}),
]
PORTS = {"Ponta Delgada": -1, "Funchal": 0, "Bari": 1, "Ancona": 1, "Piraeus": 2, "Mersin": 3}


def scene(seed):
    rng = random.Random(f"ferry {seed}")
    now = datetime.datetime(2026, rng.randint(1, 12), rng.randint(1, 28), rng.randint(0, 23), rng.choice([5, 20, 35, 50]))
    kind = rng.choice(["whole", "half", "none", "none"])
    # near a bound as often as not, where the port's time decides
    low, high = {"whole": (48, 90), "half": (12, 48), "none": (1, 12)}[kind]
    minutes = rng.randint(low * 60 + 5, high * 60 - 5)
    if rng.random() < 0.5:
        minutes = {"whole": low * 60 + rng.randint(5, 55), "half": rng.choice([low * 60 + rng.randint(5, 55), high * 60 - rng.randint(5, 55)]), "none": high * 60 - rng.randint(5, 55)}[kind]
    port = rng.choice(sorted(PORTS))
    sails = now + datetime.timedelta(minutes=minutes, hours=PORTS[port])
    cents = rng.randint(1900, 9900)
    ticket = f"F{rng.randint(100000, 999999)}"
    text = rng.choice(["I cannot travel, please take ticket {} back.", "Can I have my money back for {}?", "Our plans have changed. What do I get for {}?", "Please refund {}."])
    record = {"ticket": ticket, "port": port, "sails": sails.strftime("%Y-%m-%d %H:%M"), "fare": cents / 100, "seats": rng.randint(1, 4)}
    due = {"whole": cents, "half": cents // 2 // 5 * 5, "none": 0}[kind]
    return {"request": text.format(ticket), "now": now.strftime("%Y-%m-%d %H:%M"), "record": record, "due": due, "seen": set()}


def act(name, given):
    if name == "get_time":
        S["seen"].add(name)
        return json.dumps({"utc": S["now"]}), False
    if name == "get_port":
        if given["port"] not in PORTS:
            return json.dumps({"error": "no such port"}), True
        S["seen"].add(name if given["port"] == S["record"]["port"] else "")
        return json.dumps({"port": given["port"], "hours_ahead_of_utc": PORTS[given["port"]]}), False
    if given["ticket"] != S["record"]["ticket"]:
        return json.dumps({"error": "no such ticket"}), True
    if name == "get_ticket":
        S["seen"].add(name)
        return json.dumps(S["record"]), False
    if not 0 < given["amount"] <= S["record"]["fare"]:
        return json.dumps({"error": "the amount must be more than 0 and at most the fare"}), True
    S["log"].append((given["amount"], knows()))
    return json.dumps({"ticket": S["record"]["ticket"], "refunded": given["amount"]}), False


def user(text):
    return ""


def knows():
    """The port matters only where its hours may change the share."""
    record = S["record"]
    hours = (datetime.datetime.fromisoformat(record["sails"]) - datetime.datetime.fromisoformat(S["now"])).total_seconds() / 3600
    near = any(bound - 12 <= hours <= bound + 14 for bound in (12, 48))
    return {"get_time", "get_ticket"} | ({"get_port"} if near else set()) <= S["seen"]


def judge():
    wanted = [(S["due"], True)] if S["due"] else []
    right = knows() and S["over"] and [(round(amount * 100, 4), known) for amount, known in S["log"]] == wanted
    told = right and bool(S["said"] and S["said"][-1].strip())
    decided = bool(S["log"]) and bool(wanted)
    return [("refunded at all", "action", right or decided, 1), ("the right amount", "state", right, 3), ("told", "communicate", told, 1)]


def solve(s):
    ticket = s["record"]["ticket"]
    looks = [("get_ticket", {"ticket": ticket}), ("get_port", {"port": s["record"]["port"]}), ("get_time", {})]
    if not s["due"]:
        return [*looks, "I am sorry, it is too late for that: nothing is given back so shortly before sailing."]
    return [*looks, ("refund", {"ticket": ticket, "amount": s["due"] / 100}), "The money is on its way to you."]


S = {}
