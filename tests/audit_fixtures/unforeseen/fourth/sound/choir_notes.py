"""Choir: notes may be put down at any time, they change nothing of what was decided."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You run the office of a choir. Look up a singer's voice, and give the singer the part that belongs to it with give_part: high voices get the melody, low voices the bass. A singer whose voice
is changing gets no part; say so. Put down whatever seems useful with jot_down, as often as you like."""

PARTS = ["melody", "bass"]
TOOLS = [
    _t("get_singer", "Show a singer.", ["singer"], singer="string"),
    _t("give_part", "Give a singer a part.", ["singer", "part"], singer="string", part={"type": "string", "enum": PARTS}),
    _t("jot_down", "Write a remark about a singer into the diary.", ["singer", "remark"], singer="string", remark="string"),
]


def scene(seed):
    rng = random.Random(f"choir|{seed}")
    singer, voice = f"N{rng.randint(10000, 99999)}", ["high", "low", "changing"][seed % 3]
    text = rng.choice(["Which part does {s} sing? Please settle it.", "{s} needs a part.", "Could you give {s} a part?"])
    return {"request": text.format(s=singer), "singer": singer, "voice": voice, "age": rng.randint(9, 15), "looked": False}


def act(name, given):
    if given["singer"] != S["singer"]:
        return json.dumps({"error": "no such singer"}), True
    if name == "get_singer":
        S["looked"] = True
        return json.dumps({"singer": S["singer"], "voice": S["voice"], "age": S["age"]}), False
    if name == "give_part":
        S["log"].append((given["part"], S["looked"]))
    return json.dumps({"singer": S["singer"], "status": "noted"}), False


def user(text):
    return ""


def judge():
    part = {"high": "melody", "low": "bass"}.get(S["voice"])
    right = S["looked"] and S["log"] == ([(part, True)] if part else [])
    return [("looked", "action", S["looked"], 1), ("given", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    key, part = {"singer": s["singer"]}, {"high": "melody", "low": "bass"}.get(s["voice"])
    if part is None:
        return [("get_singer", key), "There is no part for a voice that is changing."]
    return [("get_singer", key), ("give_part", {**key, "part": part}), f"It is the {part}."]


S = {}
