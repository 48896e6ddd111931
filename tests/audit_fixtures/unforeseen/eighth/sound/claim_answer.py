"""Insurance: how much of a claim is paid, said in words; or that it is not covered."""
import json
import random
import re

RULES = """Answer clients who ask what their insurance will pay.
Look at the claim and at the contract it belongs to.
What is paid is the damage less the excess, and never more than the limit.
Damage of a kind that the contract does not list is not covered: say so, and name no amount.
You cannot pay anything yourself."""
KINDS = ["fire", "theft", "water", "storm", "glass", "vandalism"]
WAYS = ["What will I get for claim {c}?", "How much does the insurance pay on {c}?", "{c} - what can I expect?", "I had a damage, number {c}. What is covered?", "Could you tell me the payout of {c}?"]
box = {}


def make(seed):
    rng = random.Random(seed)
    damage = rng.randrange(300, 9000)
    excess = rng.choice([100, 150, 200, 250, 300])
    limit = rng.randrange(500, 9000)
    covered = sorted(rng.sample(KINDS, 3))
    ok = rng.random() < 0.5
    kind = rng.choice(covered) if ok else rng.choice([k for k in KINDS if k not in covered])
    c, p = "C%05d" % rng.randrange(100000), "V-%04d" % rng.randrange(10000)
    return {"c": c, "p": p, "kind": kind, "damage": damage, "excess": excess, "limit": limit, "covered": covered, "ok": ok,
            "due": min(max(damage - excess, 0), limit) if ok else None, "text": rng.choice(WAYS).format(c=c)}


def tools():
    return [{"type": "function", "function": {"name": n, "description": d, "parameters": {"type": "object", "properties": {k: {"type": "string"}}, "required": [k]}}}
            for n, d, k in [("get_claim", "Read a claim", "claim"), ("get_contract", "Read a contract", "contract")]]


def reset(seed):
    box.clear()
    box.update(make(seed), seen=set(), errors=0, answer="", n=0)
    return [{"role": "system", "content": RULES}, {"role": "user", "content": box["text"]}]


def look(name, args):
    if name == "get_claim" and args == {"claim": box["c"]}:
        box["seen"].add(name)
        return {"claim": box["c"], "contract": box["p"], "kind": box["kind"], "damage_eur": box["damage"]}
    if name == "get_contract" and args == {"contract": box["p"]}:
        box["seen"].add(name)
        return {"contract": box["p"], "covers": box["covered"], "excess_eur": box["excess"], "limit_eur": box["limit"]}
    return {"error": "unknown tool" if name not in ("get_claim", "get_contract") else "not found or bad arguments"}


def step(message):
    box["n"] += 1
    if not message.get("tool_calls"):
        box["answer"] = message.get("content") or ""
        return {"messages": [], "done": True, "truncated": False}
    ms = []
    for call in message["tool_calls"]:
        r = look(call["name"], call["arguments"])
        m = {"role": "tool", "tool_call_id": call["id"], "tool_name": call["name"], "content": json.dumps(r)}
        if "error" in r:
            box["errors"] += 1
            m["is_error"] = True
        ms.append(m)
    return {"messages": ms, "done": False, "truncated": box["n"] >= 12}


def amounts(text):
    """Numbers in a text, with or without thousands separators; names of claims and contracts are none."""
    text = text.replace(box["c"], " ").replace(box["p"], " ")
    return {int(re.sub(r"\D", "", a)) for a in re.findall(r"\d{1,3}(?:[,.' ]\d{3})+|\d+", re.sub(r"[.,]00\b", "", text))}


def verdict():
    looked = len(box["seen"]) == 2
    said = amounts(box["answer"])
    if box["ok"]:
        # The damage, the excess and the limit may be explained beside it, but the payout must be there.
        right = box["due"] in said and said <= {box["due"], box["damage"], box["excess"], box["limit"]} and not re.search(r"not (?:be )?covered", box["answer"].lower())
        if box["due"] != box["limit"] and said == {box["due"], box["damage"], box["excess"], box["limit"]}:
            right = right and "limit" in box["answer"].lower()
    else:
        right = bool(re.search(r"\bnot\b[^.]*\bcover|n't\b[^.]*\bcover|no cover|excluded|not insured", box["answer"].lower())) and not said - {0}
    win = looked and right
    r = 1.0 if win else max(0.0, 0.1 * len(box["seen"]) - 0.05 * box["errors"])
    return {"reward": r, "success": win, "checks": [{"name": "answer", "kind": "communicate", "passed": win, "score": None, "gates": True, "detail": ""}]}


def oracle(seed):
    e = make(seed)
    calls = [("get_claim", {"claim": e["c"]}), ("get_contract", {"contract": e["p"]})]
    words = f"The insurance will pay {e['due']} EUR." if e["ok"] else f"I am sorry, damage by {e['kind']} is not covered by your contract."
    return [{"role": "assistant", "content": None, "tool_calls": [{"id": n, "name": n, "arguments": a}]} for n, a in calls] + [{"role": "assistant", "content": words}]
