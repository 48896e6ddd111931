"""Files: a right is added to those that there are, as an octal number, unless the file is sealed."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You keep the rights of files. Look a file up before its mode is set. Somebody who asks for a right gets it in addition to those that there are: set_mode takes the whole new mode as four octal
digits (read 4, write 2, execute 1; owner, group, others). A file that is sealed keeps its mode: pass the wish on with ask_owner."""

TOOLS = [
    _t("get_file", "Show a file with its mode.", ["path"], path="string"),
    _t("set_mode", "Set the mode of a file.", ["path", "mode"], path="string", mode="string"),
    _t("ask_owner", "Pass a wish on to the owner of a file.", ["path"], path="string"),
]

BITS, WHO = {"read": 4, "write": 2, "execute": 1}, {"the group": 8, "all others": 1}


def scene(seed):
    rng = random.Random(f"modes|{seed}")
    path = f"/srv/{rng.choice(['tax', 'maps', 'logs', 'plans'])}/{rng.randint(100, 999)}.dat"
    bit, who = rng.choice(list(BITS)), rng.choice(list(WHO))
    mode = rng.choice([0o600, 0o640, 0o644, 0o700, 0o750]) & ~(BITS[bit] * WHO[who])
    text = rng.choice(["Please let {w} {b} {p}.", "{p}: {w} should be able to {b} it.", "Could {w} {b} {p}?"])
    return {"request": text.format(w=who, b=bit, p=path), "path": path, "mode": f"{mode:04o}", "new": f"{mode | BITS[bit] * WHO[who]:04o}", "sealed": rng.random() < 0.5, "looked": False}


def act(name, given):
    if given["path"] != S["path"]:
        return json.dumps({"error": "no such file"}), True
    if name == "get_file":
        S["looked"] = True
        return json.dumps({"path": S["path"], "mode": S["mode"], "sealed": S["sealed"]}), False
    S["log"].append((name, given.get("mode"), S["looked"]))
    return json.dumps({"path": S["path"], "status": "taken"}), False


def judge():
    wanted = ("ask_owner", None, True) if S["sealed"] else ("set_mode", S["new"], True)
    right = S["log"] == [wanted]
    return [("looked", "action", S["looked"], 1), ("settled", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    look = ("get_file", {"path": s["path"]})
    if s["sealed"]:
        return [look, ("ask_owner", {"path": s["path"]}), "The file is sealed, so I have asked its owner."]
    return [look, ("set_mode", {"path": s["path"], "mode": s["new"]}), "That is possible now."]


def user(text):
    return ""


S = {}
