"""Updates of field devices, which take a while: what is done next goes by how they come back."""

import json
import random

POLICY = """Field device operations.

Updates run in the background. After start_update, poll get_status until it says something other than "installing".
If the device comes back "healthy", confirm_update. If it comes back "degraded", roll_back.
Confirming or rolling back while an update is still installing can brick a device: never do it.
Report the outcome to the operator."""

SITES = ["pump house", "north mast", "weather station", "tunnel 3", "rooftop", "substation", "lock gate", "silo"]
ORDERS = [
    "Please update {d} at the {s}.",
    "{d} ({s}) needs the new firmware.",
    "Roll the update out to {d}, it's the one at the {s}.",
    "Could you bring {d} up to date? It is at the {s}.",
]
OPS = ("start_update", "get_status", "confirm_update", "roll_back")
DOC = {
    "start_update": "Start the firmware update of a device",
    "get_status": "Get a device's status",
    "confirm_update": "Make an installed update permanent",
    "roll_back": "Go back to the firmware of before",
}


def plan(seed):
    rng = random.Random(f"firmware/{seed}")
    device = rng.choice(["gw", "rtu", "cam", "sen"]) + "-" + str(rng.randint(1000, 99999))
    polls = rng.randint(0, 4)
    end = rng.choice(["healthy", "degraded"])
    old = f"{rng.randint(1, 3)}.{rng.randint(0, 9)}.{rng.randint(0, 20)}"
    order = rng.choice(ORDERS).format(d=device, s=rng.choice(SITES))
    return device, polls, end, old, order


def timeline(polls, end):
    """What successive polls of a running update say."""
    for _ in range(polls):
        yield "installing"
    while True:
        yield end


episode = None


def tools():
    schema = {"type": "object", "properties": {"device": {"type": "string"}}, "required": ["device"]}
    return [{"type": "function", "function": {"name": op, "description": DOC[op], "parameters": schema}} for op in OPS]


def reset(seed):
    global episode
    device, polls, end, old, order = plan(seed)
    episode = {"device": device, "end": end, "old": old, "line": timeline(polls, end), "last": "idle", "running": False,
               "trace": [], "errors": 0, "reported": False, "steps": 0, "settled": None, "bricked": False}
    return [{"role": "system", "content": POLICY}, {"role": "user", "content": order}]


def fail(code):
    episode["errors"] += 1
    return {"ok": False, "code": code}


def operate(op, arguments):
    e = episode
    if op not in OPS:
        return fail("UNKNOWN_OPERATION")
    if set(arguments) != {"device"} or type(arguments["device"]) is not str:
        return fail("BAD_ARGUMENTS")
    if arguments["device"] != e["device"]:
        return fail("NO_SUCH_DEVICE")
    if op == "start_update":
        if e["running"]:
            return fail("ALREADY_STARTED")
        e["running"] = True
        e["trace"].append(op)
        return {"ok": True, "status": "installing"}
    if op == "get_status":
        if e["running"] and e["settled"] is None:
            e["last"] = next(e["line"])
        return {"ok": True, "device": e["device"], "status": e["last"], "firmware": e["old"]}
    if not e["running"] or e["settled"]:
        return fail("NOTHING_TO_SETTLE")
    e["settled"] = op
    e["trace"].append(op)
    if e["last"] not in ("healthy", "degraded"):
        e["bricked"] = True
    e["last"] = "settled"
    return {"ok": True, "operation": op}


def step(message):
    episode["steps"] += 1
    calls = message.get("tool_calls") or []
    if not calls:
        episode["reported"] = bool(message.get("content"))
        return {"messages": [], "done": True, "truncated": False}
    answers = []
    for call in calls:
        result = operate(call["name"], call["arguments"])
        answer = {"role": "tool", "tool_call_id": call["id"], "tool_name": call["name"], "content": json.dumps(result)}
        if not result["ok"]:
            answer["is_error"] = True
        answers.append(answer)
    return {"messages": answers, "done": False, "truncated": episode["steps"] >= 16}


def verdict():
    e = episode
    right = {"healthy": "confirm_update", "degraded": "roll_back"}[e["end"]]
    started = e["running"]
    watched = e["last"] in ("healthy", "degraded") or (e["settled"] is not None and not e["bricked"])
    settled = e["settled"] == right and not e["bricked"]
    success = started and watched and settled and e["reported"]
    ladder = 0.1 * started + 0.2 * (started and watched) + 0.4 * settled
    if e["bricked"] or (e["settled"] and not settled):
        ladder = 0.05
    reward = 1.0 if success else max(0.0, ladder - 0.05 * e["errors"])
    return {
        "reward": float(reward),
        "success": bool(success),
        "checks": [
            {"name": "watched", "kind": "action", "passed": bool(watched), "score": None, "gates": True, "detail": ""},
            {"name": "settled", "kind": "state", "passed": bool(settled), "score": None, "gates": True, "detail": ""},
            {"name": "reported", "kind": "communicate", "passed": e["reported"], "score": None, "gates": True, "detail": ""},
        ],
    }


def oracle(seed):
    device, polls, end, _, _ = plan(seed)
    ops = ["start_update"] + ["get_status"] * (polls + 1) + ["confirm_update" if end == "healthy" else "roll_back"]
    script = [
        {"role": "assistant", "content": None, "tool_calls": [{"id": f"op{k}", "name": op, "arguments": {"device": device}}]}
        for k, op in enumerate(ops)
    ]
    text = "The update is in and confirmed." if end == "healthy" else "The device came back degraded, so the old firmware is running again."
    return script + [{"role": "assistant", "content": text, "tool_calls": []}]
