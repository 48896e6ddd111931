"""Calendars: the first hour that is free in both, or none."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You arrange meetings of two people on one day. Look both calendars up, and enter the meeting at the first full hour from 9:00 to 16:00 that is free in both with enter_meeting. Where there is none,
enter nothing and say so."""

TOOLS = [
    _t("get_calendar", "Show the hours at which a person is taken.", ["person"], person="string"),
    _t("enter_meeting", "Enter a meeting in both calendars.", ["meeting", "hour"], meeting="string", hour="string"),
]

HOURS = [f"{n}:00" for n in range(9, 17)]


def scene(seed):
    rng = random.Random(f"calendars|{seed}")
    one, two = rng.sample(["Ines", "Joon", "Kofi", "Lena", "Miro", "Nora"], 2)
    taken = {one: sorted(rng.sample(HOURS, 5), key=HOURS.index), two: sorted(rng.sample(HOURS, 4), key=HOURS.index)}
    if rng.random() < 0.4:
        taken[two] = [hour for hour in HOURS if hour not in taken[one]] + rng.sample(taken[one], 1)
    free = [hour for hour in HOURS if hour not in taken[one] and hour not in taken[two]]
    meeting = f"G{rng.randint(100, 999)}"
    text = rng.choice(["{m}: {a} and {b} have to meet today.", "Please find an hour for {a} and {b}, it is {m}.", "When can {a} see {b}? Enter it as {m}."])
    return {"request": text.format(m=meeting, a=one, b=two), "meeting": meeting, "people": (one, two), "taken": taken, "free": free, "seen": set()}


def act(name, given):
    if name == "get_calendar":
        if given["person"] not in S["taken"]:
            return json.dumps({"error": "no such person"}), True
        S["seen"].add(given["person"])
        return json.dumps({"person": given["person"], "taken": S["taken"][given["person"]]}), False
    if given["meeting"] != S["meeting"]:
        return json.dumps({"error": "no such meeting"}), True
    S["log"].append((given["hour"], len(S["seen"])))
    return json.dumps({"meeting": S["meeting"], "status": "entered"}), False


def judge():
    right = len(S["seen"]) == 2 and S["log"] == [(hour, 2) for hour in S["free"][:1]]
    return [("looked", "action", len(S["seen"]) == 2, 1), ("entered", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    looks = [("get_calendar", {"person": one}) for one in s["people"]]
    if not s["free"]:
        return [*looks, "There is no hour that is free in both, so I have entered nothing."]
    return [*looks, ("enter_meeting", {"meeting": s["meeting"], "hour": s["free"][0]}), f"You meet at {s['free'][0]}."]


def user(text):
    return ""


S = {}
