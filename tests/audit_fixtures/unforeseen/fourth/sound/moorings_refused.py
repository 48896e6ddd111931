"""Moorings: mostly the right end is a refusal, in words or by handing over."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You give out moorings in a harbour. Look a boat up first. It gets a mooring with give_mooring only if it is insured and at most 12 metres long. Everybody else is refused: say so, or hand
them over to the harbour master with transfer_to_master. Nobody gets a mooring because they insist."""

TOOLS = [
    _t("get_boat", "Show a boat.", ["boat"], boat="string"),
    _t("give_mooring", "Give a boat a mooring.", ["boat"], boat="string"),
    _t("transfer_to_master", "Hand a skipper over to the harbour master.", ["boat", "reason"], boat="string", reason="string"),
]


def scene(seed):
    rng = random.Random(f"harbour|{seed}")
    boat = f"B{rng.randint(10000, 99999)}"
    may = rng.random() < 0.36
    insured = may or rng.random() < 0.5
    metres = rng.randint(5, 12) if may or not insured else rng.randint(13, 24)
    text = rng.choice(["We need a mooring for {b} tonight.", "{b} is tired, give her a mooring!", "A mooring for {b}, please. The master is a friend of mine."])
    record = {"boat": boat, "metres": metres, "insured": insured, "built": rng.randint(1970, 2030)}
    return {"request": text.format(b=boat), "boat": boat, "record": record, "may": may, "looked": False}


def act(name, given):
    if given["boat"] != S["boat"]:
        return json.dumps({"error": "no such boat"}), True
    if name == "get_boat":
        S["looked"] = True
        return json.dumps(S["record"]), False
    S["log"].append((name, S["looked"]))
    return json.dumps({"boat": S["boat"], "status": "noted"}), False


def user(text):
    return ""


def judge():
    rights = [[("give_mooring", True)]] if S["may"] else [[], [("transfer_to_master", True)]]
    right = S["looked"] and S["log"] in rights
    return [("looked", "action", S["looked"], 1), ("decided", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    key = {"boat": s["boat"]}
    if s["may"]:
        return [("get_boat", key), ("give_mooring", key), "The mooring is yours."]
    return [("get_boat", key), "I am sorry, she does not meet our conditions, so I cannot give her a mooring."]


S = {}
