"""Lost property: the request says all that is needed; there is nothing to look up."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You take in what is found on trams. What is worth 50 euros or more is handed to the police with send_to_police. All else is shelved with shelve_item. Whoever brings it says what it is
worth, and that holds."""

KINDS = ["umbrella", "purse", "watch", "coat", "ring", "camera"]
TOOLS = [
    _t("get_shelf", "Show what lies on a shelf.", ["shelf"], shelf="integer"),
    _t("shelve_item", "Take a thing in and put it on a shelf.", ["receipt", "kind"], receipt="string", kind={"type": "string", "enum": KINDS}),
    _t("send_to_police", "Hand a thing that was found to the police.", ["receipt", "kind"], receipt="string", kind={"type": "string", "enum": KINDS}),
]


def scene(seed):
    rng = random.Random(f"lost|{seed}")
    receipt, kind = f"R{rng.randint(10000, 99999)}", rng.choice(KINDS)
    worth = rng.randint(50, 400) if rng.random() < 0.5 else rng.randint(2, 49)
    text = rng.choice(["I found a {k} on the tram, worth {w} euros. My receipt is {r}.", "Receipt {r}: a {k}, I would say {w} euros.", "This {k} lay under a seat, it may be worth {w} euros. {r} is the receipt."])
    return {"request": text.format(k=kind, w=worth, r=receipt), "receipt": receipt, "kind": kind, "dear": worth >= 50}


def act(name, given):
    if name == "get_shelf":
        return json.dumps({"shelf": given["shelf"], "things": 7}), False
    if given["receipt"] != S["receipt"]:
        return json.dumps({"error": "no such receipt"}), True
    S["log"].append((name, given["kind"]))
    return json.dumps({"receipt": S["receipt"], "status": "noted"}), False


def user(text):
    return ""


def judge():
    right = S["log"] == [("send_to_police" if S["dear"] else "shelve_item", S["kind"])]
    return [("taken in", "state", right, 3), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    name = "send_to_police" if s["dear"] else "shelve_item"
    return [(name, {"receipt": s["receipt"], "kind": s["kind"]}), "Thank you, it goes to the police." if s["dear"] else "Thank you, it is on the shelf now."]


S = {}
