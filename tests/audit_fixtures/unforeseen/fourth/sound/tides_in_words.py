"""Harbour pilot: the answer is in words only, and may be given with all that belongs to it."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You tell skippers when their ship can pass the bar. Look up the depth at each hour with get_tides. A ship can pass at an hour at which the depth is at least its draught. Name the first hour
at which it can; name further ones if you like. If there is none, say that it cannot pass."""

TOOLS = [_t("get_tides", "Show the depth above the bar at each hour, in decimetres.", ["day"], day="string")]


def scene(seed):
    rng = random.Random(f"tides|{seed}")
    day, draught = f"day-{rng.randint(1000, 9999)}", rng.randint(31, 69)
    start, none = rng.randint(0, 23), rng.random() < 0.35
    depth = {f"{h:02d}": (20 if none else 30) + rng.randint(0, 9) + (0 if none else 50 * (6 <= (h - start) % 24 <= 9)) for h in range(24)}
    hours = [h for h, d in depth.items() if d >= draught]
    text = rng.choice(["We draw {d} decimetres. When can we pass on {y}?", "{y}: draught {d}. Which hour?", "Can a ship with a draught of {d} pass on {y}?"])
    return {"request": text.format(d=draught, y=day), "day": day, "depth": depth, "hours": hours, "looked": False}


def act(name, given):
    if given["day"] != S["day"]:
        return json.dumps({"error": "no such day"}), True
    S["looked"] = True
    return json.dumps({"day": S["day"], "depth": S["depth"]}), False


def user(text):
    return ""


def judge():
    said = (S["said"][-1] if S["said"] else "").replace(":00", "").replace(S["day"], "")
    numbers = [w.strip(".,;:!?") for w in said.replace(",", " ").split()]
    named = [w.zfill(2) for w in numbers if w.isdigit() and int(w) < 24]
    right = S["looked"] and (named[:1] == S["hours"][:1] and set(named) <= set(S["hours"]) if S["hours"] else any(one in said.lower() for one in ("not", "n't", "shallow")) and not named)
    return [("looked", "action", S["looked"], 1), ("answer", "communicate", right, 2)]


def solve(s):
    if not s["hours"]:
        return [("get_tides", {"day": s["day"]}), "It is too shallow all day, you cannot pass."]
    return [("get_tides", {"day": s["day"]}), f"You can pass from {s['hours'][0]} o'clock."]


S = {}
