"""Pharmacy: withdraw just those batches whose day has passed, all in one call."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """Today is 2031-05-01. You look after the cupboards of a pharmacy. List the batches of a cupboard and withdraw those that expired before today, all of them in one call of withdraw, and no other.
Where none has expired, withdraw nothing and say so."""

TOOLS = [
    _t("list_batches", "Show the batches of a cupboard.", ["cupboard"], cupboard="string"),
    _t("withdraw", "Withdraw batches of a cupboard.", ["cupboard", "batches"], cupboard="string", batches={"type": "array", "items": {"type": "string"}}),
]


def scene(seed):
    rng = random.Random(f"batches|{seed}")
    cupboard, none = f"Z{rng.randint(1000, 9999)}", rng.random() < 0.4
    batches = {}
    for n in rng.sample(range(10000, 99999), rng.randint(4, 7)):
        old = not none and rng.random() < 0.5
        batches[f"Q{n}"] = f"2031-{rng.randint(1, 4) if old else rng.randint(5, 12):02d}-{rng.randint(2, 28):02d}"
    expired = sorted(one for one, day in batches.items() if day < "2031-05-01")
    text = rng.choice(["Please go through cupboard {c}.", "{c} has to be cleared of what has expired.", "What has expired in {c}? Take it out."])
    return {"request": text.format(c=cupboard), "cupboard": cupboard, "batches": batches, "expired": expired, "looked": False}


def act(name, given):
    if given["cupboard"] != S["cupboard"]:
        return json.dumps({"error": "no such cupboard"}), True
    if name == "list_batches":
        S["looked"] = True
        return json.dumps({"cupboard": S["cupboard"], "batches": [{"batch": k, "expires": v} for k, v in S["batches"].items()]}), False
    if not all(isinstance(one, str) and one in S["batches"] for one in given["batches"]):
        return json.dumps({"error": "no such batch"}), True
    S["log"].append((sorted(set(given["batches"])), S["looked"]))
    return json.dumps({"cupboard": S["cupboard"], "withdrawn": len(given["batches"])}), False


def user(text):
    return ""


def judge():
    right = S["looked"] and S["log"] == ([(S["expired"], True)] if S["expired"] else [])
    return [("looked", "action", S["looked"], 1), ("withdrawn", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    key = {"cupboard": s["cupboard"]}
    if not s["expired"]:
        return [("list_batches", key), "Nothing in it has expired."]
    return [("list_batches", key), ("withdraw", {**key, "batches": s["expired"]}), "What had expired is withdrawn."]


S = {}
