"""A liquid handler in a chemistry lab: how much stock goes into a dilution, and when a stock is too weak for it."""

import random
import re

POLICY = """You operate the liquid handler of a teaching lab.

- To dilute a stock, pipette target concentration x final volume / stock concentration, in whole microlitres (round to the nearest), and the machine fills up with buffer.
- Labels give molar concentrations (M), chemists mostly ask in millimolar (mM): 1 M = 1000 mM.
- If the stock is weaker than what is asked for, pipette nothing and request a fresh one.
- Close with a short message to the chemist."""

SALTS = ["KCl", "NaCl", "MgCl2", "Tris", "HEPES", "EDTA", "urea", "glucose"]
ASKS = [
    "Can you make me {ul} ul of {mm} mM {salt} from bottle {bottle}?",
    "I need {ul} ul {salt} at {mm} mM. Bottle {bottle} please.",
    "Bottle {bottle}: dilute to {mm} mM {salt}, {ul} ul in total.",
    "please prepare {mm} mM {salt} ({ul} ul) out of {bottle}, thanks",
]
S = {}


def tools():
    def tool(name, text, **fields):
        schema = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
        return {"type": "function", "function": {"name": name, "description": text, "parameters": schema}}

    bottle = {"type": "string", "description": "The number on the bottle"}
    return [
        tool("read_label", "Read the label of a stock bottle", bottle=bottle),
        tool("pipette", "Pipette stock from a bottle into a fresh tube", bottle=bottle, microlitres={"type": "integer"}),
        tool("request_stock", "Ask the stockroom for a fresh bottle in place of this one", bottle=bottle),
    ]


def _problem(seed):
    r = random.Random(seed * 7 + 3)
    salt = r.choice(SALTS)
    bottle = f"{salt}-{r.randrange(1000, 9999)}"
    weak = r.random() < 0.5
    while True:
        ul = r.randrange(4, 60) * 50
        mm = r.randrange(5, 120)
        stock = r.randrange(1, mm) if weak else r.randrange(mm + 1, mm * 12)
        exact = mm * ul / stock
        if weak or abs(exact % 1 - 0.5) > 0.05:
            break
    text = r.choice(ASKS).format(ul=ul, mm=mm, salt=salt, bottle=bottle)
    made = f"{r.randrange(1, 28)} {r.choice(['March', 'April', 'May', 'June'])}"
    label = f"{salt}, {stock / 1000:.3f} M in water, made on {made}, {r.randrange(20, 90)} ml left."
    return {"bottle": bottle, "weak": weak, "volume": round(exact), "text": text, "label": label}


def reset(seed):
    S.clear()
    S.update(_problem(seed), read=False, acts=[], faults=0, said="", steps=0)
    return [{"role": "system", "content": POLICY}, {"role": "user", "content": S["text"]}]


def _do(name, args):
    known = {t["function"]["name"]: t["function"]["parameters"] for t in tools()}
    if name not in known:
        return None, f"There is no command {name!r}."
    wanted = known[name]["required"]
    if sorted(args) != sorted(wanted):
        return None, f"{name} takes {', '.join(wanted)}."
    if not isinstance(args["bottle"], str):
        return None, "bottle must be text."
    if name == "pipette" and (type(args["microlitres"]) is not int or not 0 < args["microlitres"] <= 100000):
        return None, "microlitres must be a whole number from 1 to 100000."
    if args["bottle"] != S["bottle"]:
        return None, f"No bottle {args['bottle']!r} on the bench."
    if name == "read_label":
        S["read"] = True
        return S["label"], None
    S["acts"].append((name, args.get("microlitres")))
    if name == "pipette":
        return f"Pipetted {args['microlitres']} ul from {S['bottle']}.", None
    return f"A fresh bottle of {S['bottle']} is on order.", None


def step(message):
    S["steps"] += 1
    calls = message.get("tool_calls") or []
    if not calls:
        S["said"] = message.get("content") or ""
        return {"messages": [], "done": True, "truncated": False}
    out = []
    for c in calls:
        good, bad = _do(c["name"], c["arguments"] if isinstance(c["arguments"], dict) else {})
        one = {"role": "tool", "tool_call_id": c["id"], "tool_name": c["name"], "content": good if bad is None else bad}
        if bad is not None:
            S["faults"] += 1
            one["is_error"] = True
        out.append(one)
    return {"messages": out, "done": False, "truncated": S["steps"] >= 14}


def verdict():
    wanted = [("request_stock", None)] if S["weak"] else [("pipette", S["volume"])]
    right = S["acts"] == wanted
    told = bool(re.search(r"\w", S["said"])) and right
    parts = {"looked": S["read"], "acted": right and S["read"], "told": told and S["read"]}
    reward = 0.2 * parts["looked"] + 0.5 * parts["acted"] + 0.3 * parts["told"]
    reward -= 0.05 * S["faults"] + 0.1 * (len(S["acts"]) if not right else 0)
    success = all(parts.values())
    if not success:
        reward = min(reward, 0.9)
    else:
        reward = 1.0
    checks = [
        {"name": n, "kind": "communicate" if n == "told" else "state", "passed": bool(v), "score": None, "gates": True, "detail": ""}
        for n, v in parts.items()
    ]
    return {"reward": float(max(0.0, reward)), "success": success, "checks": checks}


def oracle(seed):
    p = _problem(seed)
    if p["weak"]:
        act = {"id": "b", "name": "request_stock", "arguments": {"bottle": p["bottle"]}}
        words = "That bottle is too weak for what you need, so I have asked the stockroom for a fresh one."
    else:
        act = {"id": "b", "name": "pipette", "arguments": {"bottle": p["bottle"], "microlitres": p["volume"]}}
        words = f"Your dilution is ready: {p['volume']} ul of stock, filled up with buffer."
    look = {"id": "a", "name": "read_label", "arguments": {"bottle": p["bottle"]}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [look]},
        {"role": "assistant", "content": None, "tool_calls": [act]},
        {"role": "assistant", "content": words, "tool_calls": []},
    ]
