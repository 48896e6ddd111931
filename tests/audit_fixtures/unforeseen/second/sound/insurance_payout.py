"""Insurance: apply deductible and limit before a claim is paid."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

POLICY = """You settle claims of a household insurance. What is paid is the damage less the deductible of the contract, and never more than
its limit; if nothing is left, decline the claim and explain why. Damage stands in the claim, deductible and limit in the contract. Open both
before anything is paid."""

TOOLS = [
    _t("get_claim", "Show a claim.", ["claim_id"], claim_id="string"),
    _t("get_contract", "Show a contract.", ["contract_id"], contract_id="string"),
    _t("pay_claim", "Pay an amount for a claim.", ["claim_id", "amount"], claim_id="string", amount="integer"),
    _t("decline_claim", "Decline a claim.", ["claim_id"], claim_id="string"),
]


def scene(seed):
    rng = random.Random(f"payout|{seed}")
    deductible = rng.randrange(100, 900, 50)
    limit = rng.randrange(1500, 5000, 100)
    kind = ["plain", "little", "large", "plain", "little", "large"][seed % 6]
    damage = {"plain": rng.randint(deductible + 20, deductible + limit - 20), "little": rng.randint(20, deductible), "large": rng.randint(deductible + limit + 10, 9000)}[kind]
    claim, contract = f"CL{rng.randint(100000, 999999)}", f"HC-{rng.randint(1000, 9999)}"
    text = rng.choice(["What do I get for claim {c}?", "Please settle {c}.", "I have been waiting for weeks: {c}."])
    return {
        "request": text.format(c=claim),
        "claim": {"claim_id": claim, "contract_id": contract, "damage": damage, "cause": rng.choice(["water", "storm", "theft"])},
        "contract": {"contract_id": contract, "deductible": deductible, "limit": limit, "since": rng.randint(2009, 2025)},
        "amount": min(max(damage - deductible, 0), limit),
        "seen": set(),
    }


def act(name, given):
    if name == "get_contract":
        if given["contract_id"] != S["contract"]["contract_id"]:
            return json.dumps({"error": "no such contract"}), True
        S["seen"].add("contract")
        return json.dumps(S["contract"]), False
    if given["claim_id"] != S["claim"]["claim_id"]:
        return json.dumps({"error": "no such claim"}), True
    if name == "get_claim":
        S["seen"].add("claim")
        return json.dumps(S["claim"]), False
    S["log"].append((name, given.get("amount", 0), len(S["seen"])))
    return json.dumps({"claim_id": given["claim_id"], "status": "settled"}), False


def user(text):
    return ""


def judge():
    looked = S["seen"] == {"claim", "contract"}
    want = ("pay_claim", S["amount"], 2) if S["amount"] else ("decline_claim", 0, 2)
    right = S["log"] == [want]
    return [("looked", "action", looked, 1), ("settled", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    key = {"claim_id": s["claim"]["claim_id"]}
    looks = [("get_claim", key), ("get_contract", {"contract_id": s["contract"]["contract_id"]})]
    if s["amount"]:
        return [*looks, ("pay_claim", {**key, "amount": s["amount"]}), f"{s['amount']} will be paid to you."]
    return [*looks, ("decline_claim", key), "The damage is not above your deductible, so nothing is paid."]


S = {}
