"""Hotel: settle every booking of a letter, each as its own record says."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You serve a hotel. A booking may be moved to another day only if its rate is "flexible"; one with the rate "fixed" stays,
and its guest gets a voucher instead. Open each booking before you do anything about it. Letters may name several
bookings; settle all of them, in any order."""

TOOLS = [
    _t("get_booking", "Show a booking.", ["booking_id"], booking_id="string"),
    _t("list_bookings", "Show all bookings that a letter may be about.", []),
    _t("move_booking", "Move a booking to another day.", ["booking_id", "arrival"], booking_id="string", arrival="string"),
    _t("send_voucher", "Send a voucher for a booking.", ["booking_id"], booking_id="string"),
]


def scene(seed):
    rng = random.Random(f"letter {seed}")
    bookings, wishes, parts = {}, {}, []
    count = 2 if seed % 3 else 1
    while len(bookings) < count:
        key = f"{rng.choice('ABCDEFGH')}{rng.randint(1000, 9999)}"
        if key in bookings:
            continue
        flexible = (seed % 2 == 0) != (len(bookings) == 1)
        bookings[key] = {"booking_id": key, "rate": "flexible" if flexible else "fixed", "arrival": f"2025-07-{rng.randint(10, 19)}", "room": rng.randint(100, 500)}
        day = f"2025-08-{rng.randint(10, 28)}"
        wishes[key] = ("move_booking", {"booking_id": key, "arrival": day}) if flexible else ("send_voucher", {"booking_id": key})
        parts.append(f"{key} to {day}")
    rng.shuffle(parts)
    text = rng.choice(["Please move {0}.", "We come later: {0}.", "Change of plans! Could you move {0}?"]).format(" and ".join(parts))
    return {"request": text, "bookings": bookings, "wishes": wishes, "opened": set()}


def act(name, given):
    if name == "list_bookings":
        S["opened"].update(S["bookings"])
        return json.dumps(list(S["bookings"].values())), False
    key = given["booking_id"]
    if key not in S["bookings"]:
        return "Error: no such booking", True
    if name == "get_booking":
        S["opened"].add(key)
        return json.dumps(S["bookings"][key]), False
    S["log"].append((name, dict(given), key in S["opened"]))
    if name == "move_booking":
        S["bookings"][key]["arrival"] = given["arrival"]
    return json.dumps({"ok": True}), False


def judge():
    rows = []
    for key, want in sorted(S["wishes"].items()):
        mine = [(n, a) for n, a, seen in S["log"] if a["booking_id"] == key and seen]
        every = [one for one in S["log"] if one[1]["booking_id"] == key]
        rows.append((f"opened_{key}", "action", key in S["opened"] and all(seen for *_, seen in every), 1))
        rows.append((f"settled_{key}", "state", mine == [want] and len(every) == 1, 3))
    return [*rows, ("answered", "communicate", all(r[2] for r in rows) and bool(S["last"].strip()), 1)]


def solve(s):
    steps = [("get_booking", {"booking_id": key}) for key in s["wishes"]]
    return [*steps, *reversed(s["wishes"].values()), "All of it is settled."]


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
