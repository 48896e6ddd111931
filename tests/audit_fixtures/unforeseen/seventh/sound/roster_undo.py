"""A hospital's roster: a mistaken change is put back, unless somebody has changed it again since."""

import json
import random


def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You keep the roster of a hospital. Changes that were made by mistake are undone: look up the change and how the shift stands now, then give the shift the start that it had before the change, with set_start. Where somebody has changed it again since, so that it does not stand any more as that change left it, leave it alone and tell the user: that later change was meant."""

TOOLS = [
    _t("get_change", "Show a change of the roster.", ["change"], change="string"),
    _t("get_shift", "Show how a shift stands now.", ["shift"], shift="string"),
    _t("set_start", "Set when a shift starts.", ["shift", "start"], shift="string", start={"type": "string", "description": "HH:MM"}),
]
PEOPLE = ["Okafor", "Lindqvist", "Moreau", "Tanaka", "Rossi", "Novak"]


def scene(seed):
    rng = random.Random(f"roster {seed}")
    before, after, other = rng.sample([f"{hour:02d}:{minute:02d}" for hour in range(5, 23) for minute in (0, 15, 30, 45)], 3)
    again = rng.random() < 0.5
    change, shift = f"CH{rng.randint(10000, 99999)}", f"W{rng.randint(100, 999)}"
    text = rng.choice(["I made change {} by mistake. Please undo it.", "{} was an error, can you put it back?", "Oh no, I did not mean to do {}!", "Please take {} back."])
    record = {"change": change, "shift": shift, "by": rng.choice(PEOPLE), "start_before": before, "start_after": after}
    now = {"shift": shift, "nurse": rng.choice(PEOPLE), "ward": rng.randint(1, 9), "start": other if again else after}
    return {"request": text.format(change), "record": record, "now": now, "again": again, "seen": set()}


def act(name, given):
    if name == "get_change":
        if given["change"] != S["record"]["change"]:
            return json.dumps({"error": "no such change"}), True
        S["seen"].add("change")
        return json.dumps(S["record"]), False
    if given["shift"] != S["now"]["shift"]:
        return json.dumps({"error": "no such shift"}), True
    if name == "get_shift":
        S["seen"].add("shift")
        return json.dumps(S["now"]), False
    S["log"].append((given["start"], len(S["seen"]) == 2))
    S["now"]["start"] = given["start"]
    return json.dumps(S["now"]), False


def user(text):
    return ""


def judge():
    looked = len(S["seen"]) == 2
    wanted = [] if S["again"] else [(S["record"]["start_before"], True)]
    right = looked and S["log"] == wanted and S["over"]
    told = right and bool(S["said"] and S["said"][-1].strip())
    return [("looked", "action", looked, 1), ("stands as it should", "state", right, 3), ("told", "communicate", told, 1)]


def solve(s):
    shift = s["record"]["shift"]
    looks = [("get_change", {"change": s["record"]["change"]}), ("get_shift", {"shift": shift})]
    if s["again"]:
        return [*looks, "That shift was changed again afterwards, so I have left it as it is."]
    return [*looks, ("set_start", {"shift": shift, "start": s["record"]["start_before"]}), "It is as it was before."]


S = {}
