"""Hotel desk: grant a late check-out where the house rules allow it."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You work at the desk of a hotel group. Guests write to you.
A late check-out may be granted if the room is not booked again for the same day; otherwise decline and offer luggage
storage. A wake-up call can be set for any room. Look the stay up before you change anything about it."""

TOOLS = [
    _t("get_stay", "Show a stay.", ["stay_id"], stay_id="string"),
    _t("grant_late_checkout", "Move the check-out of a stay to 16:00.", ["stay_id"], stay_id="string"),
    _t("store_luggage", "Reserve a place in the luggage room.", ["stay_id"], stay_id="string"),
    _t("set_wakeup_call", "Set a wake-up call.", ["stay_id", "time"], stay_id="string", time="string"),
]


def scene(seed):
    rng = random.Random(f"late {seed}")
    stay_id = f"ST-{rng.randint(10000, 99999)}"
    free = seed % 2 == 0
    stay = {
        "stay_id": stay_id,
        "room": rng.randint(101, 899),
        "guest": rng.choice(["A. Okafor", "B. Lindqvist", "C. Moreau", "D. Haddad", "E. Novak", "F. Tan"]),
        "check_out": "11:00",
        "next_arrival": None if free else rng.choice(["13:00", "14:00", "15:00"]),
        "late_checkout": "none",
        "luggage": "none",
        "wakeup": None,
    }
    wake = f"0{rng.randint(5, 8)}:{rng.choice(['00', '15', '30', '45'])}" if rng.random() < 0.4 else None
    text = rng.choice(["May I stay until four tomorrow", "Is a late check-out possible", "We would like to leave at 16:00 only"])
    text += f"? My stay is {stay_id}." + (f" Also a wake-up call at {wake}, please." if wake else "")
    return {"request": text, "stay": stay, "free": free, "wake": wake, "seen": False}


def act(name, given):
    stay = S["stay"]
    if given["stay_id"] != stay["stay_id"]:
        return "Error: no such stay", True
    S["log"].append(name)
    if name == "get_stay":
        S["seen"] = True
        if S["free"]:
            stay["late_checkout"] = "16:00"
        else:
            stay["luggage"] = "reserved"
        return json.dumps({**stay, "late_checkout": "none", "luggage": "none"}), False
    if name == "grant_late_checkout":
        stay["late_checkout"] = "16:00"
    elif name == "store_luggage":
        stay["luggage"] = "reserved"
    else:
        stay["wakeup"] = given["time"]
    return json.dumps({"ok": True}), False


def judge():
    stay = S["stay"]
    late = stay["late_checkout"] == ("16:00" if S["free"] else "none")
    bags = stay["luggage"] == ("none" if S["free"] else "reserved")
    right = S["seen"] and late and bags
    wake = stay["wakeup"] == S["wake"]
    return [
        ("looked", "action", S["seen"], 1),
        ("late_checkout", "state", right, 2),
        ("wake_up", "state", wake, 1 if S["wake"] else 0),
        ("answered", "communicate", right and wake and bool(S["last"].strip()), 1),
    ]


def solve(s):
    key = {"stay_id": s["stay"]["stay_id"]}
    steps = [("get_stay", key), ("grant_late_checkout" if s["free"] else "store_luggage", key)]
    if s["wake"]:
        steps.append(("set_wakeup_call", {**key, "time": s["wake"]}))
    return [*steps, "Everything is arranged."]


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
    S.update(log=[], bad=0, turns=0, last="", over=False)
    return [{"role": "system", "content": POLICY}, {"role": "user", "content": S["request"]}]


def step(message):
    S["turns"] += 1
    calls = message.get("tool_calls") or []
    if not calls:
        S["last"] = message.get("content") or ""
        S["over"] = True
        return {"messages": [], "done": True, "truncated": False}
    out = []
    for call in calls:
        given = call.get("arguments") or {}
        mistake = _mistake(call["name"], given)
        if mistake:
            text, failed = f"Error: {mistake}", True
        else:
            text, failed = act(call["name"], given)
        S["bad"] += bool(failed)
        answer = {"role": "tool", "tool_call_id": call["id"], "tool_name": call["name"], "content": text}
        if failed:
            answer["is_error"] = True
        out.append(answer)
    return {"messages": out, "done": False, "truncated": S["turns"] >= 20}


def verdict():
    rows = judge()
    checks = [
        {"name": n, "kind": k, "passed": bool(p), "score": None, "gates": True, "detail": "" if p else f"{n} failed"}
        for n, k, p, _ in rows
    ]
    checks.append({"name": "ended", "kind": "protocol", "passed": S["over"], "score": None, "gates": True, "detail": ""})
    success = all(c["passed"] for c in checks)
    total = sum(w for *_, w in rows) or 1
    share = sum(w for _, _, p, w in rows if p) / total
    reward = 0.5 * share + 0.5 * success - 0.05 * S["bad"]
    return {"reward": float(min(1.0, max(0.5 * success, reward, 0.0))), "success": success, "checks": checks}


def oracle(seed):
    out = []
    for number, one in enumerate(solve(scene(int(seed)))):
        if isinstance(one, str):
            out.append({"role": "assistant", "content": one, "tool_calls": []})
        else:
            call = {"id": f"call_{number}", "name": one[0], "arguments": one[1]}
            out.append({"role": "assistant", "content": None, "tool_calls": [call]})
    return out
