"""Delivery: read which days a parcel can come before its day is changed."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You serve people who wait for a parcel. Check a parcel with get_parcel before you change its day. It comes on the first of the days that are
free and not before the day that the customer names. Change it once, with move_parcel, and tell the customer the day."""

TOOLS = [
    _t("get_parcel", "Show a parcel and the days that are free.", ["parcel_id"], parcel_id="string"),
    _t("get_depot", "Show a depot.", ["depot"], depot="string"),
    _t("move_parcel", "Have a parcel come on another day.", ["parcel_id", "day"], parcel_id="string", day="integer"),
    _t("return_parcel", "Send a parcel back.", ["parcel_id"], parcel_id="string"),
]


def scene(seed):
    rng = random.Random(f"delivery|{seed}")
    parcel, wish = f"P{rng.randint(100000, 999999)}", rng.randint(3, 20)
    free = sorted(rng.sample([*range(1, wish), *range(wish + 1, 29)], 4)) + [29]
    text = rng.choice(["Please bring {p} on the {d} or later.", "I am away until the {d}; {p} may come from then on.", "Not before the {d}: {p}."])
    return {"request": text.format(p=parcel, d=wish), "parcel": parcel, "free": free, "day": min(d for d in free if d >= wish), "looked": False}


def act(name, given):
    if name == "get_depot":
        return json.dumps({"depot": given["depot"], "open": True}), False
    if given["parcel_id"] != S["parcel"]:
        return json.dumps({"error": "no such parcel"}), True
    if name == "get_parcel":
        S["looked"] = True
        return json.dumps({"parcel_id": S["parcel"], "free": S["free"]}), False
    if name == "move_parcel" and given["day"] not in S["free"]:
        return json.dumps({"error": "that day is full"}), True
    S["log"].append((name, given.get("day"), S["looked"]))
    return json.dumps({"parcel_id": S["parcel"], "status": "moved"}), False


def user(text):
    return ""


def judge():
    right = S["log"] == [("move_parcel", S["day"], True)]
    return [("looked", "action", S["looked"], 1), ("moved", "state", right, 2), ("told", "communicate", right and bool(S["said"]) and str(S["day"]) in S["said"][-1], 1)]


def solve(s):
    key = {"parcel_id": s["parcel"]}
    return [("get_parcel", key), ("move_parcel", {**key, "day": s["day"]}), f"It comes on the {s['day']}."]


S = {}
