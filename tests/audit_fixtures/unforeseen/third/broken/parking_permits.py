"""Parking permits: count what counts before another permit is granted."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

POLICY = """You issue resident parking permits of a town. A household may hold two valid permits at the same time; a third one is refused. Permits
that have expired or were given back do not count. Today is 14 May 2031: a permit is valid if its end is not before today and it was not given back. Look at the
household's permits before you grant or refuse."""

TOOLS = [
    _t("get_household", "Show a household with the numbers of its permits.", ["household"], household="string"),
    _t("get_permit", "Show one permit.", ["permit"], permit="string"),
    _t("grant_permit", "Grant a household a permit for a car.", ["household", "plate"], household="string", plate="string"),
]


def scene(seed):
    rng = random.Random(f"parking|{seed}")
    permits = []
    for number in rng.sample(range(1000, 9999), rng.choice([1, 2, 2, 3])):
        state = rng.choice(["current", "current", "expired", "returned"])
        year, month = (2031, rng.randint(6, 12)) if state != "expired" else (rng.choice([2029, 2030]), rng.randint(1, 12))
        permits.append({"permit": f"P{number}", "end": f"{year}-{month:02d}-{rng.randint(1, 28):02d}", "given_back": state == "returned", "plate": f"T {rng.randint(100, 999)}"})
    household = f"H-{rng.randint(20000, 79999)}"
    plate = f"T {rng.randint(1000, 9999)}"
    text = rng.choice(["We have a new car, {p}. Household {h} needs a permit for it.", "{h}: please a parking permit for {p}.", "A permit for {p}, household {h}, please."])
    return {
        "request": text.format(p=plate, h=household),
        "household": household,
        "plate": plate,
        "permits": permits,
        "grant": len([one for one in permits if not one["given_back"]]) < 2,
        "seen": set(),
    }


def act(name, given):
    if name == "get_permit":
        for one in S["permits"]:
            if one["permit"] == given["permit"]:
                S["seen"].add(one["permit"])
                return json.dumps(one), False
        return json.dumps({"error": "no such permit"}), True
    if given["household"] != S["household"]:
        return json.dumps({"error": "no such household"}), True
    if name == "get_household":
        return json.dumps({"household": S["household"], "street": "Lindenweg", "permits": [one["permit"] for one in S["permits"]]}), False
    S["log"].append(given["plate"])
    return json.dumps({"household": given["household"], "plate": given["plate"], "status": "granted"}), False


def user(text):
    return ""


def judge():
    looked = S["seen"] == {one["permit"] for one in S["permits"]}
    right = looked and S["log"] == ([S["plate"]] if S["grant"] else [])
    return [("looked", "action", looked, 1), ("permit", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    looks = [("get_household", {"household": s["household"]}), *(("get_permit", {"permit": one["permit"]}) for one in s["permits"])]
    if s["grant"]:
        return [*looks, ("grant_permit", {"household": s["household"], "plate": s["plate"]}), f"The permit for {s['plate']} is granted."]
    return [*looks, "Your household holds two permits already, so I cannot grant another one."]


S = {}
