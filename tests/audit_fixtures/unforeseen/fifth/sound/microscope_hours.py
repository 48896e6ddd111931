"""Microscopes: a wish in the time of one's own town is booked in the time of the laboratory."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You book microscopes. A wish names a day and an hour in the time of the town that somebody works in. The calendar is kept in the laboratory's time: look both up, work the hour out, and
book it with book_hours. A microscope that is being serviced on that day is not booked; say so instead."""

TOOLS = [
    _t("get_town", "Show how many hours a town is ahead of the laboratory.", ["town"], town="string"),
    _t("get_microscope", "Show a microscope and the day on which it is serviced.", ["microscope"], microscope="string"),
    _t("book_hours", "Book a microscope from an hour of the laboratory on.", ["microscope", "start"], microscope="string", start="string"),
]

TOWNS = {"Lisbon": -1, "Athens": 1, "Istanbul": 2, "Dubai": 3, "Karachi": 4, "Dhaka": 5}


def scene(seed):
    rng = random.Random(f"microscopes|{seed}")
    town, scope = rng.choice(list(TOWNS)), f"M{rng.randint(100, 999)}"
    day, hour = f"2026-05-{rng.randint(4, 27):02}", rng.randint(11, 18)
    serviced = day if rng.random() < 0.5 else f"2026-06-{rng.randint(1, 28):02}"
    text = rng.choice(["I need {m} on {d} at {h}:00, {t} time.", "{m}, {d}, {h}:00 as the clocks go in {t}, please.", "Can I have {m} from {h}:00 in {t} on {d}?"])
    return {"request": text.format(m=scope, d=day, h=hour, t=town), "town": town, "scope": scope, "serviced": serviced, "free": serviced != day, "start": f"{day}T{hour - TOWNS[town]:02}:00", "seen": set()}


def act(name, given):
    if name == "get_town":
        if given["town"] not in TOWNS:
            return json.dumps({"error": "no such town"}), True
        S["seen"] |= {given["town"]}
        return json.dumps({"town": given["town"], "hours_ahead": TOWNS[given["town"]]}), False
    if given["microscope"] != S["scope"]:
        return json.dumps({"error": "no such microscope"}), True
    if name == "get_microscope":
        S["seen"] |= {"scope"}
        return json.dumps({"microscope": S["scope"], "serviced_on": S["serviced"]}), False
    S["log"].append((given["start"], "scope" in S["seen"]))
    return json.dumps({"microscope": S["scope"], "status": "entered"}), False


def judge():
    right = "scope" in S["seen"] and S["log"] == ([(S["start"], True)] if S["free"] else [])
    return [("looked", "action", "scope" in S["seen"], 1), ("booked", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    look = ("get_microscope", {"microscope": s["scope"]})
    if not s["free"]:
        return [look, "It is being serviced on that day, so I have booked nothing."]
    return [look, ("get_town", {"town": s["town"]}), ("book_hours", {"microscope": s["scope"], "start": s["start"]}), "It is booked."]


def user(text):
    return ""


S = {}
