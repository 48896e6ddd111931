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


_KINDS = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict}


def _mistake(name, given):
    for tool in TOOLS:
        if tool["function"]["name"] != name:
            continue
        spec = tool["function"]["parameters"]
        for key in spec["required"]:
            if key not in given:
                return f"missing argument '{key}'"
        for key, value in given.items():
            if key not in spec["properties"]:
                return f"unexpected argument '{key}'"
            kind = spec["properties"][key].get("type", "string")
            if not isinstance(value, _KINDS[kind]) or (isinstance(value, bool) and kind != "boolean"):
                return f"argument '{key}' must be of type {kind}"
            allowed = spec["properties"][key].get("enum")
            if allowed and value not in allowed:
                return f"argument '{key}' must be one of {allowed}"
        return ""
    return f"unknown tool '{name}'"


def tools():
    return TOOLS


def reset(seed):
    S.clear()
    S.update(scene(int(seed)))
    S.update(log=[], bad=0, turns=0, said=[], over=False)
    return [{"role": "system", "content": POLICY}, {"role": "user", "content": S["request"]}]


def step(message):
    S["turns"] += 1
    calls = message.get("tool_calls") or []
    messages = []
    for call in calls:
        given = call.get("arguments") or {}
        mistake = _mistake(call["name"], given)
        content, failed = (json.dumps({"error": mistake}), True) if mistake else act(call["name"], given)
        S["bad"] += bool(failed)
        one = {"role": "tool", "tool_call_id": call["id"], "tool_name": call["name"], "content": content}
        messages.append({**one, "is_error": True} if failed else one)
    if not calls:
        text = message.get("content") or ""
        S["said"].append(text)
        answer = user(text)
        if answer:
            messages.append({"role": "user", "content": answer})
        else:
            S["over"] = True
    return {"messages": messages, "done": S["over"], "truncated": not S["over"] and S["turns"] >= 18}


def verdict():
    rows = judge()
    rows.append(("closed", "protocol", S["over"], 0))
    success = all(passed for _, _, passed, _ in rows)
    weight = sum(w for *_, w in rows)
    share = sum(w for _, _, passed, w in rows if passed) / weight
    reward = max(0.5 * share + 0.5 * success - 0.05 * S["bad"], 0.5 * success, 0.0)
    checks = []
    for name, kind, passed, _ in rows:
        detail = "as it should be" if passed else "not so"
        checks.append(
            {"name": name, "kind": kind, "passed": bool(passed), "score": None, "gates": True, "detail": detail}
        )
    return {"reward": min(1.0, float(reward)), "success": bool(success), "checks": checks}


def oracle(seed):
    turns = []
    for one in solve(scene(int(seed))):
        if isinstance(one, str):
            turns.append({"role": "assistant", "content": one, "tool_calls": []})
            continue
        name, given = one
        turns.append(
            {"role": "assistant", "content": None, "tool_calls": [{"id": f"t{len(turns)}", "name": name, "arguments": given}]}
        )
    return turns
