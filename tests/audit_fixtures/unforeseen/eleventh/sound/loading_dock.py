"""Trucks are sent to a bay, told in JSON lists; a table of handlers."""

import json
import random

POLICY = (
    "You direct trucks at a depot. Scan the truck with scan before you send it to a bay with assign_bay, and do so once. "
    "Bays: H for hazardous goods, C for chilled goods, T for trucks heavier than 12 tons, S for all others. "
    "Hazardous goods come first: a truck with hazardous goods goes to H even if it is chilled or heavy. Chilled goods go to C even if the truck is heavy. "
    "Tell the driver where to go at the end."
)
BAYS = ["H", "C", "T", "S"]
W = {}


def truck(seed):
    r = random.Random(seed * 7919)
    plate = f"{r.choice(['ZH', 'BE', 'AG', 'SG', 'VD'])} {r.randrange(10000, 999999)}"
    goods = sorted(r.sample(["paper", "tiles", "toys", "tools", "shoes", "lamps"], 2))
    hazardous, chilled = r.random() < 0.33, r.random() < 0.42
    tons = r.choice([12, 13, r.randrange(4, 12), r.randrange(6, 12), r.randrange(13, 30), r.randrange(13, 26)])
    return {"plate": plate, "tons": tons, "hazardous": hazardous, "chilled": chilled, "goods": goods, "ask": r.choice(["Truck {} at the gate.", "Where to? Plate {}.", "{} reporting, which bay?", "Hello, I drive {}.", "{} wants to unload."]).format(plate)}


def bay(t):
    for name, holds in (("H", t["hazardous"]), ("C", t["chilled"]), ("T", t["tons"] > 12)):
        if holds:
            return name
    return "S"


def tools():
    return [
        {"type": "function", "function": {"name": "scan", "description": "Scan a truck.", "parameters": {"type": "object", "properties": {"plate": {"type": "string"}}, "required": ["plate"]}}},
        {"type": "function", "function": {"name": "assign_bay", "description": "Send a truck to a bay.", "parameters": {"type": "object", "properties": {"plate": {"type": "string"}, "bay": {"type": "string", "enum": BAYS}}, "required": ["plate", "bay"]}}},
    ]


def scan(plate):
    W["scanned"] = True
    t = W["truck"]
    return [{"plate": plate}, {"tons": t["tons"], "goods": t["goods"]}, {"hazardous": t["hazardous"], "chilled": t["chilled"]}]


def assign_bay(plate, bay):
    if bay not in BAYS:
        raise ValueError("unknown bay")
    W["sent"].append((bay, W["scanned"]))
    return ["sent"]


HANDLERS = {"scan": (scan, {"plate"}), "assign_bay": (assign_bay, {"plate", "bay"})}


def reset(seed):
    W.clear()
    W.update(truck=truck(seed), scanned=False, sent=[], bad=0, closed=False, count=0)
    return [{"role": "system", "content": POLICY}, {"role": "user", "content": W["truck"]["ask"]}]


def handle(c):
    try:
        function, names = HANDLERS[c["name"]]
        if set(c["arguments"]) != names or c["arguments"]["plate"] != W["truck"]["plate"]:
            raise ValueError("unknown truck or arguments")
        return json.dumps(function(**c["arguments"])), False
    except (KeyError, ValueError, TypeError) as error:
        W["bad"] += 1
        return json.dumps(["error", str(error)]), True


def step(message):
    W["count"] += 1
    out = []
    for c in message.get("tool_calls") or []:
        text, bad = handle(c)
        out.append({"role": "tool", "tool_call_id": c["id"], "tool_name": c["name"], "content": text, "is_error": bad})
    W["closed"] = not out
    return {"messages": out, "done": not out, "truncated": bool(out) and W["count"] >= 12}


def verdict():
    sent = W["sent"] == [(bay(W["truck"]), True)]
    win = sent and W["closed"]
    value = 1.0 if win else max(0.0, (0.7 if sent else 0.1 if W["scanned"] and not W["sent"] else 0.0) - 0.1 * W["bad"])
    return {"reward": value, "success": win, "checks": [{"name": "bay", "kind": "state", "passed": sent, "score": None, "gates": True, "detail": ""}]}


def oracle(seed):
    t = truck(seed)
    return [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "s", "name": "scan", "arguments": {"plate": t["plate"]}}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "name": "assign_bay", "arguments": {"plate": t["plate"], "bay": bay(t)}}]},
        {"role": "assistant", "content": f"Please drive to bay {bay(t)}."},
    ]
