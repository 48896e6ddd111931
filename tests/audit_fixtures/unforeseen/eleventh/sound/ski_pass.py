"""Refunds of ski passes, told in JSON; plain functions over one dictionary."""

import json
import random

POLICY = (
    "You work at the ticket office of a ski area. Look up the pass with get_pass before you decide. "
    "A pass is refunded with refund_pass if it was bought at most 14 days ago and has been used on no more than 2 days. "
    "In all other cases decline with decline_refund. Decide once, then answer the guest in one sentence."
)
NAMES = ["Ilse", "Marco", "Petra", "Yann", "Lucia", "Tomas", "Edda", "Niko", "Sara", "Urs"]
ASKS = ["I'd like my money back for pass {p}.", "Please refund my pass, it is {p}.", "{p} is my pass. Can I get a refund?", "We leave early: what about a refund of {p}?"]
STATE = {}


def tools():
    out = []
    for name, text in (("get_pass", "Show a ski pass."), ("refund_pass", "Refund a ski pass."), ("decline_refund", "Decline a refund.")):
        params = {"type": "object", "properties": {"pass_id": {"type": "string"}}, "required": ["pass_id"]}
        out.append({"type": "function", "function": {"name": name, "description": text, "parameters": params}})
    return out


def make(seed):
    rng = random.Random(seed)
    days = rng.choice([rng.randrange(0, 12), 13, 14, 14, 15, 15, rng.randrange(16, 60), rng.randrange(0, 14)])
    used = rng.choice([0, 1, 2, 2, 3, 3, rng.randrange(4, 9)]) if days <= 14 and rng.random() < 0.55 else rng.choice([0, 1, 2])
    s = {"pass_id": f"SP-{rng.randrange(10**5, 10**6)}", "bought_days_ago": days, "days_used": used, "price": rng.randrange(40, 400)}
    s["text"] = f"{rng.choice(NAMES)} here. " + rng.choice(ASKS).format(p=s["pass_id"])
    s["due"] = "refund_pass" if s["bought_days_ago"] <= 14 and s["days_used"] <= 2 else "decline_refund"
    return s


def reset(seed):
    STATE.clear()
    STATE.update(make(seed), seen=False, deeds=[], bad=0, said="", turns=0)
    return [{"role": "system", "content": POLICY}, {"role": "user", "content": STATE["text"]}]


def answer(call):
    if call["name"] not in ("get_pass", "refund_pass", "decline_refund"):
        return {"error": "unknown tool"}
    if set(call["arguments"]) != {"pass_id"} or call["arguments"]["pass_id"] != STATE["pass_id"]:
        return {"error": "pass not found"}
    if call["name"] == "get_pass":
        STATE["seen"] = True
        return {k: STATE[k] for k in ("pass_id", "bought_days_ago", "days_used", "price")}
    STATE["deeds"].append((call["name"], STATE["seen"]))
    return {"status": "ok"}


def step(message):
    STATE["turns"] += 1
    calls = message.get("tool_calls") or []
    if not calls:
        STATE["said"] = message.get("content") or ""
        return {"messages": [], "done": True, "truncated": False}
    out = []
    for call in calls:
        told = answer(call)
        one = {"role": "tool", "tool_call_id": call["id"], "tool_name": call["name"], "content": json.dumps(told)}
        if "error" in told:
            STATE["bad"] += 1
            one["is_error"] = True
        out.append(one)
    return {"messages": out, "done": False, "truncated": STATE["turns"] >= 12}


def verdict():
    looked = bool(STATE["deeds"]) and STATE["deeds"][0][1]
    right = [d for d, _ in STATE["deeds"]] == [STATE["due"]]
    told = right and bool(STATE["said"].strip())
    success = looked and right and told
    reward = 1.0 if success else max(0.0, 0.3 * looked + 0.3 * (looked and right) - 0.1 * STATE["bad"])
    checks = [("looked", looked), ("right", right), ("told", told)]
    return {"reward": float(reward), "success": success, "checks": [{"name": n, "kind": "state", "passed": bool(p), "score": None, "gates": True, "detail": ""} for n, p in checks]}


def oracle(seed):
    s = make(seed)
    said = "Your pass has been refunded." if s["due"] == "refund_pass" else "I am sorry, this pass cannot be refunded."
    steps = [{"role": "assistant", "content": None, "tool_calls": [{"id": n, "name": n, "arguments": {"pass_id": s["pass_id"]}}]} for n in ("get_pass", s["due"])]
    return [*steps, {"role": "assistant", "content": said, "tool_calls": []}]
