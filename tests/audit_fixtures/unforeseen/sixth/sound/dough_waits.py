"""A bakery: wait until a dough has doubled, and throw away what is dead or has risen too far."""

import json
import random


def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You mind doughs in a bakery. Bake a dough with bake as soon as a look shows that it has at least twice the volume at which it was set, and at most three times. With wait you let up to 30 minutes pass. A dough that
has more than three times its volume has risen too far: throw it away with discard. A dough that has not grown at all after an hour of waiting is dead: throw it away too. Always look right before you bake or throw away."""

TOOLS = [
    _t("read_dough", "Show the volume of a dough, in millilitres.", ["dough"], dough="string"),
    _t("wait", "Let minutes pass, 30 at the most.", ["minutes"], minutes="integer"),
    _t("bake", "Bake a dough.", ["dough"], dough="string"),
    _t("discard", "Throw a dough away.", ["dough"], dough="string"),
]


def scene(seed):
    rng = random.Random(f"dough|{seed}")
    kind = rng.choice(["rises", "rises", "rises", "ready", "dead", "far"])
    base = rng.randint(40, 90) * 10
    start = {"rises": rng.randint(110, 160), "ready": rng.randint(205, 290), "dead": rng.randint(100, 150), "far": rng.randint(310, 380)}[kind]
    speed = 0 if kind == "dead" else rng.randint(10, 24)
    dough = f"D{rng.randint(100, 999)}"
    text = rng.choice(["Please take care of dough {d}.", "{d} is yours now, see to it.", "Can you get {d} into the oven when it is time?"])
    return {"request": text.format(d=dough), "dough": dough, "kind": kind, "base": base, "start": start, "speed": speed, "minutes": 0, "fresh": False, "ended": False}


def volume(s, minutes):
    return s["base"] * (s["start"] * 10 + s["speed"] * minutes) // 1000


def act(name, given):
    if name == "wait":
        if not 1 <= given["minutes"] <= 30:
            return json.dumps({"error": "minutes must be from 1 to 30"}), True
        S["minutes"] += given["minutes"]
        S["fresh"] = False
        return json.dumps({"waited": given["minutes"]}), False
    if given["dough"] != S["dough"]:
        return json.dumps({"error": "no such dough"}), True
    if S["ended"]:
        return json.dumps({"error": "this dough is gone"}), True
    now = volume(S, S["minutes"])
    if name == "read_dough":
        S["fresh"] = True
        return json.dumps({"dough": S["dough"], "when_set": S["base"], "now": now}), False
    S["ended"] = True
    S["log"].append((name, now / S["base"], S["minutes"], S["fresh"]))
    return json.dumps({"dough": S["dough"], "status": "baked" if name == "bake" else "thrown away"}), False


def judge():
    right = False
    if S["log"]:
        name, share, minutes, fresh = S["log"][0]
        if name == "bake":
            right = fresh and 2 <= share <= 3
        else:
            right = fresh and (S["kind"] == "far" or (S["kind"] == "dead" and minutes >= 60))
    return [("done", "state", right, 3), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    look, minutes = ("read_dough", {"dough": s["dough"]}), 0
    turns = [look]
    while s["kind"] != "far" and volume(s, minutes) < 2 * s["base"] and not (s["kind"] == "dead" and minutes >= 60):
        turns += [("wait", {"minutes": 30}), look]
        minutes += 30
    if s["kind"] in ("dead", "far"):
        return [*turns, ("discard", {"dough": s["dough"]}), "I had to throw it away."]
    return [*turns, ("bake", {"dough": s["dough"]}), "It is in the oven."]


def user(text):
    return ""


S = {}
