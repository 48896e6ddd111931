"""Recycling yard: add up the year before more is accepted free of charge."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

POLICY = """You register deliveries at a recycling yard. Each household may deliver 400 kilograms of rubble a year free of charge. Add up the rubble that the
household has delivered in the year of today's delivery. If the new load fits into what is left, to the kilogram, accept it with accept_free; otherwise take it with accept_paid
as a whole. Other materials and other years do not count. Today is 9 September 2031."""

TOOLS = [
    _t("get_deliveries", "Show the deliveries of a household, the latest first.", ["household", "page"], household="string", page="integer"),
    _t("accept_free", "Accept a load of rubble free of charge.", ["household", "kilograms"], household="string", kilograms="integer"),
    _t("accept_paid", "Accept a load of rubble that is paid for.", ["household", "kilograms"], household="string", kilograms="integer"),
]


def scene(seed):
    rng = random.Random(f"recycling|{seed}")
    used = rng.randint(120, 390)
    left = 400 - used
    free = rng.random() < 0.5
    load = rng.randint(max(5, left // 3), left) if free else rng.randint(left + 1, left + 120)
    cut = sorted(rng.sample(range(10, used - 10), 2))
    parts = [cut[0], cut[1] - cut[0], used - cut[1]]
    rows = [{"date": f"2031-{month:02d}-{rng.randint(1, 28):02d}", "material": "rubble", "kilograms": kilos} for month, kilos in zip(rng.sample(range(1, 9), 3), parts)]
    rows += [{"date": f"2031-{rng.randint(1, 8):02d}-{rng.randint(1, 28):02d}", "material": rng.choice(["wood", "metal", "green waste"]), "kilograms": rng.randint(20, 200)} for _ in range(rng.randint(1, 2))]
    rows += [{"date": f"2030-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}", "material": "rubble", "kilograms": rng.randint(40, 260)} for _ in range(rng.randint(1, 2))]
    rows.sort(key=lambda one: one["date"], reverse=True)
    household = f"H-{rng.randint(20000, 79999)}"
    text = rng.choice(["I have {k} kilograms of rubble, household {h}.", "{h}: {k} kg of rubble to get rid of.", "Household {h} with {k} kilograms of rubble on the trailer."])
    return {
        "request": text.format(k=load, h=household),
        "household": household,
        "pages": [rows[:3], rows[3:]],
        "used": used,
        "load": load,
        "free": load <= left,
        "seen": set(),
    }


def act(name, given):
    if given["household"] != S["household"]:
        return json.dumps({"error": "no such household"}), True
    if name == "get_deliveries":
        if given["page"] not in (1, 2):
            return json.dumps({"error": "there are pages 1 and 2"}), True
        S["seen"].add(given["page"])
        return json.dumps({"page": given["page"], "pages": 2, "deliveries": S["pages"][given["page"] - 1]}), False
    S["log"].append((name, given["kilograms"]))
    return json.dumps({"household": given["household"], "status": "accepted"}), False


def user(text):
    return ""


def judge():
    counts = [number for number, rows in enumerate(S["pages"], start=1) if any(one["date"] > "2031" for one in rows)]
    looked = S["seen"] >= set(counts)
    right = looked and S["log"] == [("accept_free" if S["free"] else "accept_paid", S["load"])]
    return [("looked", "action", looked, 1), ("load", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    key = {"household": s["household"]}
    looks = [("get_deliveries", {**key, "page": 1}), ("get_deliveries", {**key, "page": 2})]
    name, word = ("accept_free", "free of charge") if s["free"] else ("accept_paid", "against payment")
    return [*looks, (name, {**key, "kilograms": s["load"]}), f"You have delivered {s['used']} kilograms of rubble this year, so these {s['load']} are accepted {word}."]


S = {}
