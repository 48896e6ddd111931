"""A greenhouse: water until it is enough, and see by what the water does whether the valve works."""

import json
import random


def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You water the beds of a greenhouse. Look at a bed first. If its moisture has reached its target, leave it. Otherwise open the valve and let the water run, with wait, until the moisture has reached the target; then close the valve. wait passes ten minutes. Never leave a valve open when you are done, and water no bed by more than 4 over its target. A bed whose moisture has not risen ten minutes after its valve was opened has a blocked valve: close it and call the gardener with call_gardener."""

TOOLS = [
    _t("get_bed", "Show a bed.", ["bed"], bed="string"),
    _t("set_valve", "Open or close the valve of a bed.", ["bed", "position"], bed="string", position={"type": "string", "enum": ["open", "closed"]}),
    _t("wait", "Let ten minutes pass.", []),
    _t("call_gardener", "Call the gardener to a bed.", ["bed"], bed="string"),
]


def scene(seed):
    rng = random.Random(f"greenhouse {seed}")
    kind = rng.choice(["wet", "works", "blocked"])
    target = rng.randint(40, 60)
    rate = rng.randint(3, 5)
    moisture = target + rng.randint(0, 6) if kind == "wet" else target - rate * rng.randint(1, 3) + rng.randint(0, 1)
    bed = f"{rng.choice('NSEW')}{rng.randint(1, 99)}"
    text = rng.choice(["Please see to bed {}.", "Bed {} may need water, can you look after it?", "Could you take care of {}? It looks a little tired.", "It is {}'s turn."])
    state = {"bed": bed, "plant": rng.choice(["tomatoes", "peppers", "basil", "aubergines"]), "moisture": moisture, "target": target, "valve": "closed"}
    return {"request": text.format(bed), "kind": kind, "rate": 0 if kind == "blocked" else rate, "state": state, "looks": [], "opened": False, "ran": 0, "called": []}


def act(name, given):
    state = S["state"]
    if name == "wait":
        if state["valve"] == "open":
            S["ran"] += 1
            state["moisture"] = min(100, state["moisture"] + S["rate"])
        return json.dumps({"minutes": 10}), False
    if given["bed"] != state["bed"]:
        return json.dumps({"error": "no such bed"}), True
    if name == "get_bed":
        S["looks"].append(S["ran"])
        return json.dumps(state), False
    if name == "set_valve":
        S["opened"] = S["opened"] or given["position"] == "open"
        state["valve"] = given["position"]
        S["log"].append(given["position"])
        return json.dumps({"bed": state["bed"], "valve": state["valve"]}), False
    S["called"].append(0 in S["looks"] and any(S["looks"]))
    return json.dumps({"bed": state["bed"], "gardener": "called"}), False


def user(text):
    return ""


def judge():
    state, kind = S["state"], S["kind"]
    looked = 0 in S["looks"]
    closed = state["valve"] == "closed"
    watered = {"wet": not S["opened"], "works": 0 <= state["moisture"] - state["target"] <= 4, "blocked": S["opened"] and S["ran"] > 0}[kind]
    called = S["called"] == ([True] if kind == "blocked" else [])
    right = looked and closed and watered and called and S["over"]
    return [("looked", "action", looked, 1), ("watered", "state", right or (looked and S["opened"] and watered), 1), ("as it should be", "state", right, 3)]


def solve(s):
    bed = s["state"]["bed"]
    look, wait = ("get_bed", {"bed": bed}), ("wait", {})
    start, stop = ("set_valve", {"bed": bed, "position": "open"}), ("set_valve", {"bed": bed, "position": "closed"})
    if s["kind"] == "wet":
        return [look, "That bed has all the water that it needs."]
    if s["kind"] == "blocked":
        return [look, start, wait, look, stop, ("call_gardener", {"bed": bed}), "No water comes through; the gardener will see to the valve."]
    more = -((s["state"]["moisture"] - s["state"]["target"]) // s["rate"]) - 1
    return [look, start, wait, look, *[wait] * more, stop, "The bed is watered."]


S = {}
