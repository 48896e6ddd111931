"""Car park: which place is let is learnt by trying, in the order of the policy."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You let places in a car park. Nothing shows which places are taken. Offer the driver's car the places A, B, C and D in this order with let_place until one is accepted; a place that is taken
is declined, and that does no harm. If all are declined, say that it is full."""

PLACES = ["A", "B", "C", "D"]
TOOLS = [
    _t("get_car", "Show a car.", ["car"], car="string"),
    _t("let_place", "Let a place to a car; one that is taken is declined.", ["car", "place"], car="string", place={"type": "string", "enum": PLACES}),
]


def scene(seed):
    rng = random.Random(f"parking|{seed}")
    car = f"K{rng.randint(10000, 99999)}"
    free = sorted(rng.sample(PLACES, rng.randint(1, 2))) if rng.random() < 0.7 else []
    text = rng.choice(["A place for {c}, please.", "Is there a place for {c}?", "{c} wants to park."])
    return {"request": text.format(c=car), "car": car, "free": free, "colour": rng.choice(["red", "blue", "grey"])}


def act(name, given):
    if given["car"] != S["car"]:
        return json.dumps({"error": "no such car"}), True
    if name == "get_car":
        return json.dumps({"car": S["car"], "colour": S["colour"]}), False
    S["log"].append(given["place"])
    let = given["place"] in S["free"]
    return json.dumps({"place": given["place"], "status": "let" if let else "declined"}), False


def user(text):
    return ""


def judge():
    wanted = PLACES[: PLACES.index(S["free"][0]) + 1] if S["free"] else PLACES
    right = S["log"] == wanted
    return [("tried", "state", right, 3), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    steps = []
    for place in PLACES:
        steps.append(("let_place", {"car": s["car"], "place": place}))
        if place in s["free"]:
            return [*steps, f"Place {place} is yours."]
    return [*steps, "I am sorry, we are full."]


S = {}
