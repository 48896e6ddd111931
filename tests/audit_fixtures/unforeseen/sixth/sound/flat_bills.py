"""A shared flat: what one owes for a month, by days, without what is paid, and with what is one's own."""

import json
import random


def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You work out what people who share a flat owe for a month. get_bills shows the month's bills, get_flat who lived there on how many days. A bill for all is split by the days that each lived there; a bill for one person is
that person's alone. Bills that are paid do not count. Ask for the sum in cents with ask_for, rounded to the nearest cent once, at the end. If nothing is owed, ask for nothing and say so."""

TOOLS = [
    _t("get_bills", "Show the bills of a month.", ["month"], month="string"),
    _t("get_flat", "Show who lived in the flat in a month.", ["month"], month="string"),
    _t("ask_for", "Ask a person for money.", ["person", "cents"], person="string", cents="integer"),
]

NAMES = ["Anna", "Bela", "Cem", "Dora", "Emil", "Fee"]


def scene(seed):
    rng = random.Random(f"flat|{seed}")
    people = rng.sample(NAMES, 3)
    person = people[0]
    free = rng.random() < 0.3
    days = {one: rng.randint(8, 30) for one in people}
    if free:
        days[person] = 0
    bills = []
    for what in rng.sample(["power", "water", "internet", "rent", "cleaning", "gas", "radio"], rng.randint(3, 5)):
        cents, owner = rng.randint(900, 24000), rng.choice(["all", "all", *people])
        bills.append({"bill": what, "for": owner, "amount": f"{cents // 100}.{cents % 100:02d}", "paid": rng.random() < 0.25 or (free and owner == person)})
    bills[0].update({"for": rng.choice(people[1:]) if free else "all", "paid": False})
    rng.shuffle(bills)
    total = sum(days.values())
    owed = 0
    for one in bills:
        cents = int(one["amount"].replace(".", ""))
        share = {"all": days[person], person: total}.get(one["for"], 0)
        owed += 0 if one["paid"] else cents * share
    owed = (2 * owed + total) // (2 * total)
    month = f"{rng.randint(2030, 2034)}-{rng.randint(1, 12):02d}"
    text = rng.choice(["What does {p} owe for {m}? Please ask for it.", "Ask {p} for the share of {m}.", "{p} has not paid anything for {m} yet, please see to it."])
    return {"request": text.format(p=person, m=month), "person": person, "people": people, "month": month, "bills": bills, "days": days, "owed": owed, "seen": set()}


def act(name, given):
    if name == "ask_for":
        if given["person"] not in S["people"]:
            return json.dumps({"error": "no such person"}), True
        S["log"].append((given["person"], given["cents"], len(S["seen"])))
        return json.dumps({"person": given["person"], "status": "asked"}), False
    if given["month"] != S["month"]:
        return json.dumps({"error": "nothing is known of this month"}), True
    S["seen"].add(name)
    if name == "get_bills":
        return json.dumps({"month": S["month"], "bills": S["bills"]}), False
    return json.dumps({"month": S["month"], "days": S["days"]}), False


def judge():
    looked = len(S["seen"]) == 2
    right = looked and S["log"] == ([(S["person"], S["owed"], 2)] if S["owed"] else [])
    return [("looked", "action", looked, 1), ("asked", "state", right, 3), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    looks = [("get_bills", {"month": s["month"]}), ("get_flat", {"month": s["month"]})]
    if not s["owed"]:
        return [*looks, f"{s['person']} owes nothing for that month, so I have asked for nothing."]
    return [*looks, ("ask_for", {"person": s["person"], "cents": s["owed"]}), f"I have asked {s['person']} for {s['owed'] // 100}.{s['owed'] % 100:02d}."]


def user(text):
    return ""


S = {}
