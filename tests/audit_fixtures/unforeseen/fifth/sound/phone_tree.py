"""A phone tree: every key tells what the next ones are, and one that is wrong cannot be taken back."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You call offices for people who cannot. Listen to what the line says and press the key of what is wanted, menu after menu, until the line says that the matter is noted. A key cannot be taken back. Hang up
by saying what was done."""

TOOLS = [_t("listen", "Show what the line says now.", ["line"], line="string"), _t("press_key", "Press a key.", ["line", "key"], line="string", key="string")]

MENUS = [["water", "power", "gas"], ["a bill", "a meter", "a move"], ["a copy", "a complaint", "a delay"]]


def scene(seed):
    rng = random.Random(f"phone|{seed}")
    wanted = [rng.choice(menu) for menu in MENUS]
    keys = [dict(zip(rng.sample("123456789", 3), menu)) for menu in MENUS]
    line = f"0{rng.randint(100, 999)}-{rng.randint(10000, 99999)}"
    text = rng.choice(["{l}: it is about {a}, {b}, and I want {c}.", "Please call {l} for {c} about {b} ({a}).", "I need {c}. It is {b}, for {a}; the number is {l}."])
    return {"request": text.format(l=line, a=wanted[0], b=wanted[1], c=wanted[2]), "line": line, "wanted": wanted, "keys": keys, "way": [], "heard": False}


def _says(s):
    return {"menu": s["keys"][len(s["way"])]} if len(s["way"]) < 3 else {"status": "the matter is noted"}


def act(name, given):
    if given["line"] != S["line"]:
        return json.dumps({"error": "nobody answers"}), True
    if name == "listen":
        S["heard"] = True
        return json.dumps({"line": S["line"], **_says(S)}), False
    if len(S["way"]) == 3 or given["key"] not in S["keys"][len(S["way"])]:
        return json.dumps({"error": "no such key"}), True
    S["way"].append(S["keys"][len(S["way"])][given["key"]])
    return json.dumps({"line": S["line"], **_says(S)}), False


def judge():
    right = S["heard"] and S["way"] == S["wanted"]
    return [("heard", "action", S["heard"], 1), ("way", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    keys = [next(key for key, what in menu.items() if what == wanted) for menu, wanted in zip(s["keys"], s["wanted"])]
    return [("listen", {"line": s["line"]}), *(("press_key", {"line": s["line"], "key": key}) for key in keys), f"I have asked for {s['wanted'][2]}."]


def user(text):
    return ""


S = {}
