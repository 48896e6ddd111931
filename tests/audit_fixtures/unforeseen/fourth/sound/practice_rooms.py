"""Music school: any room that is free will do."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You give out practice rooms in a music school. Look up which rooms are free at the hour that a pupil wants, and book any one of them; which one does not matter. If none is free, book
nothing and say so."""

ROOMS = ["bass", "cello", "flute", "harp", "horn", "oboe", "piano", "viola"]
TOOLS = [
    _t("get_free_rooms", "Show which rooms are free for a pupil's hour.", ["pupil", "hour"], pupil="string", hour="integer"),
    _t("book_room", "Book a room for a pupil.", ["pupil", "hour", "room"], pupil="string", hour="integer", room={"type": "string", "enum": ROOMS}),
]


def scene(seed):
    rng = random.Random(f"music|{seed}")
    pupil, hour = f"P{rng.randint(10000, 99999)}", rng.randint(8, 20)
    free = [] if rng.random() < 0.4 else sorted(rng.sample(ROOMS, rng.randint(1, 4)))
    text = rng.choice(["May I practise at {h}? I am {p}.", "A room at {h} for {p}.", "{p} would like to practise at {h} o'clock."])
    return {"request": text.format(h=hour, p=pupil), "pupil": pupil, "hour": hour, "free": free, "looked": False, "pick": rng.choice(free) if free else None}


def act(name, given):
    if given["pupil"] != S["pupil"] or given["hour"] != S["hour"]:
        return json.dumps({"error": "no such wish"}), True
    if name == "get_free_rooms":
        S["looked"] = True
        return json.dumps({"hour": S["hour"], "free": S["free"]}), False
    S["log"].append((given["room"] in S["free"], S["looked"]))
    return json.dumps({"pupil": S["pupil"], "room": given["room"]}), False


def user(text):
    return ""


def judge():
    right = S["looked"] and S["log"] == ([(True, True)] if S["free"] else [])
    return [("looked", "action", S["looked"], 1), ("booked", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    key = {"pupil": s["pupil"], "hour": s["hour"]}
    if not s["free"]:
        return [("get_free_rooms", key), "I am afraid that no room is free then."]
    return [("get_free_rooms", key), ("book_room", {**key, "room": s["pick"]}), f"The {s['pick']} room is yours."]


S = {}
