"""Railway: work the delay out before a passenger is compensated."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

POLICY = """You handle claims of railway passengers. What counts is the delay at the passenger's destination: the actual arrival less the planned
one, in minutes. From 60 minutes on a passenger gets 25 percent of the fare back, from 120 minutes on 50 percent, and below 60 minutes nothing: then decline.
Pay with pay_claim, in percent. A train that was planned before midnight may arrive after it. Tell the passenger the delay in minutes."""

TOOLS = [
    _t("get_journey", "Show a booked journey.", ["booking"], booking="string"),
    _t("get_arrival", "Show planned and actual arrival of a train at a station.", ["train", "station"], train="string", station="string"),
    _t("pay_claim", "Pay a share of the fare back.", ["booking", "percent"], booking="string", percent="integer"),
]

TOWNS = ["Aldern", "Brunnfeld", "Castorp", "Dornau", "Eschbach", "Falkenau", "Grimma", "Hollen"]


def _clock(minutes):
    return f"{minutes // 60 % 24:02d}:{minutes % 60:02d}"


def scene(seed):
    rng = random.Random(f"railway|{seed}")
    delay = rng.choice([rng.randint(8, 52), rng.randint(66, 112), rng.randint(127, 175)])
    planned = 24 * 60 - rng.randint(1, delay - 1) if seed % 4 == 0 else rng.randint(6 * 60, 20 * 60)
    actual = (planned + delay) % (24 * 60)
    late = actual - planned
    booking, train = f"B{rng.randint(100000, 999999)}", f"IR {rng.randint(100, 989)}"
    start, via, end = rng.sample(TOWNS, 3)
    text = rng.choice(["My train was late, booking {b}. What do I get back?", "I want compensation for {b}.", "Claim for booking {b}, we arrived far too late."])
    return {
        "request": text.format(b=booking),
        "journey": {"booking": booking, "train": train, "from": start, "via": via, "to": end, "fare": rng.randint(19, 140)},
        "planned": _clock(planned),
        "actual": _clock(actual),
        "departed": rng.randint(0, 20),
        "late": late,
        "percent": 50 if late >= 120 else 25 if late >= 60 else 0,
        "seen": set(),
    }


def act(name, given):
    journey = S["journey"]
    if name == "get_arrival":
        if given["train"] != journey["train"] or given["station"] not in (journey["to"], journey["via"]):
            return json.dumps({"error": "the train does not stop there"}), True
        S["seen"].add(given["station"])
        if given["station"] == journey["via"]:
            return json.dumps({"train": journey["train"], "station": journey["via"], "planned": "passed", "actual": "passed"}), False
        return json.dumps({"train": journey["train"], "station": journey["to"], "planned": S["planned"], "actual": S["actual"]}), False
    if given["booking"] != journey["booking"]:
        return json.dumps({"error": "no such booking"}), True
    if name == "get_journey":
        return json.dumps(journey), False
    S["log"].append(given["percent"])
    return json.dumps({"booking": given["booking"], "paid_percent": given["percent"]}), False


def user(text):
    return ""


def judge():
    looked = S["journey"]["to"] in S["seen"]
    right = looked and S["log"] == ([S["percent"]] if S["percent"] else [])
    told = bool(S["said"]) and bool(S["said"][-1].strip()) and (S["late"] < 0 or str(S["late"]) in S["said"][-1])
    return [("looked", "action", looked, 1), ("claim", "state", right, 2), ("told", "communicate", right and told, 1)]


def solve(s):
    journey = s["journey"]
    looks = [("get_journey", {"booking": journey["booking"]}), ("get_arrival", {"train": journey["train"], "station": journey["to"]})]
    if s["percent"]:
        pay = ("pay_claim", {"booking": journey["booking"], "percent": s["percent"]})
        return [*looks, pay, f"You were {s['late']} minutes late and get {s['percent']} percent of the fare back."]
    late = f"{s['late']} minutes late" if s["late"] > 0 else "not late"
    return [*looks, f"You were {late} at {journey['to']}, which is too little for a compensation."]


S = {}
