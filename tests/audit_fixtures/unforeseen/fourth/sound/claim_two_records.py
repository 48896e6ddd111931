"""Insurance: a claim is paid by what two records show together."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You settle claims of a bicycle insurance. A claim is paid with pay_claim only if its police report is there and its contract is in force; else it is turned down with decline_claim. The claim
shows the first, the contract the second; the user names both. Nothing else counts."""

TOOLS = [
    _t("get_claim", "Show a claim.", ["claim"], claim="string"),
    _t("get_contract", "Show a contract.", ["contract"], contract="string"),
    _t("pay_claim", "Pay a claim.", ["claim"], claim="string"),
    _t("decline_claim", "Turn a claim down.", ["claim"], claim="string"),
]


def scene(seed):
    rng = random.Random(f"claim|{seed}")
    claim, contract = f"S{rng.randint(10000, 99999)}", f"V{rng.randint(10000, 99999)}"
    both = rng.random() < 0.5
    report, force = (True, True) if both else rng.choice([(True, False), (False, True), (True, False), (False, True), (False, False)])
    text = rng.choice(["My bicycle is gone: claim {s}, contract {v}.", "What about {s}? The contract is {v}.", "Please settle {s} of contract {v}."])
    records = {"claim": {"claim": claim, "police_report": report, "thing": rng.choice(["lock", "wheel", "bicycle"])}, "contract": {"contract": contract, "in_force": force, "years": rng.randint(1, 9)}}
    return {"request": text.format(s=claim, v=contract), "claim": claim, "contract": contract, "records": records, "both": both, "seen": set()}


def act(name, given):
    if name == "get_contract":
        if given["contract"] != S["contract"]:
            return json.dumps({"error": "no such contract"}), True
        S["seen"].add("contract")
        return json.dumps(S["records"]["contract"]), False
    if given["claim"] != S["claim"]:
        return json.dumps({"error": "no such claim"}), True
    if name == "get_claim":
        S["seen"].add("claim")
        return json.dumps(S["records"]["claim"]), False
    S["log"].append(name)
    return json.dumps({"claim": S["claim"], "status": "settled"}), False


def enough():
    missing = {k for k, v in (("claim", S["records"]["claim"]["police_report"]), ("contract", S["records"]["contract"]["in_force"])) if not v}
    return bool(missing & S["seen"]) or S["seen"] == {"claim", "contract"}


def user(text):
    return ""


def judge():
    looked = enough()
    right = looked and S["log"] == ["pay_claim" if S["both"] else "decline_claim"]
    return [("looked", "action", looked, 1), ("settled", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    looks = [("get_claim", {"claim": s["claim"]}), ("get_contract", {"contract": s["contract"]})]
    if s["both"]:
        return [*looks, ("pay_claim", {"claim": s["claim"]}), "The claim is paid."]
    return [*looks, ("decline_claim", {"claim": s["claim"]}), "I am sorry, the claim is turned down."]


S = {}
