"""An office for the night: turn down every room that is free and not low already."""

import json
import random


def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You set the heating of an office for the night. List the rooms. Set every room that nobody has booked for the night to 16 degrees with set_room; rooms that are booked, and rooms that are at 16 or lower already, stay as they are."""

TOOLS = [_t("list_rooms", "List the rooms of a floor.", ["floor"], floor="string"), _t("set_room", "Set a room's temperature.", ["room", "degrees"], room="string", degrees="integer")]


def scene(seed):
    rng = random.Random(f"heat|{seed}")
    floor = f"F{rng.randint(10, 99)}"
    rooms = [{"room": f"R{n}", "degrees": rng.choice([14, 16, 19, 20, 21, 22]), "booked_tonight": rng.random() < 0.4} for n in rng.sample(range(100, 999), rng.randint(2, 5))]
    low = [r["room"] for r in rooms if not r["booked_tonight"] and r["degrees"] > 16]
    return {"request": rng.choice(["Please see to floor {f} for the night.", "Night setting for {f}, please.", "{f} can be turned down now."]).format(f=floor), "floor": floor, "rooms": rooms, "low": low, "looked": False}


def act(name, given):
    if name == "list_rooms":
        if given["floor"] != S["floor"]:
            return json.dumps({"error": "no such floor"}), True
        S["looked"] = True
        return json.dumps({"rooms": S["rooms"]}), False
    if given["room"] not in [r["room"] for r in S["rooms"]]:
        return json.dumps({"error": "no such room"}), True
    S["log"].append((given["room"], given["degrees"], S["looked"]))
    return json.dumps({"room": given["room"], "degrees": given["degrees"]}), False


def judge():
    right = S["looked"] and sorted(S["log"]) == sorted((r, 16, True) for r in S["low"])
    return [("looked", "action", S["looked"], 1), ("set", "state", right, 3), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    return [("list_rooms", {"floor": s["floor"]}), *(("set_room", {"room": r, "degrees": 16}) for r in s["low"]), "The floor is ready for the night."]


def user(text):
    return ""


S = {}
