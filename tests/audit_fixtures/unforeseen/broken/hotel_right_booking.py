"""Hotel: read the booking that the guest means before it is changed."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You serve the guests of a hotel. A room may be upgraded only if the booking itself says that its guest is a member of the
house. Open the booking that is to be changed before you change it. Guests often have several. Otherwise offer a bottle of
water with send_water and leave the room as it is."""

TOOLS = [
    _t("get_guest", "The bookings of a guest.", ["guest_id"], guest_id="string"),
    _t("get_booking", "Show a booking.", ["booking_id"], booking_id="string"),
    _t("upgrade_room", "Upgrade the room of a booking.", ["booking_id"], booking_id="string"),
    _t("send_water", "Send a bottle of water to a room.", ["booking_id"], booking_id="string"),
]


def scene(seed):
    rng = random.Random(seed * 5 + 2)
    guest = f"G{rng.randint(1000, 9999)}"
    member = seed % 2 == 0
    keys = []
    while len(keys) < 3:
        key = f"BK{rng.randint(10000, 99999)}"
        if key not in keys:
            keys.append(key)
    # A guest is a member or not, in all bookings alike.
    bookings = {k: {"booking_id": k, "guest_id": guest, "room": rng.randint(100, 699), "member": member, "nights": rng.randint(1, 6)} for k in keys}
    target = rng.choice(keys)
    text = rng.choice(["I am {g}, any chance of an upgrade for {b}?", "Guest {g}: please upgrade {b}.", "Could {b} be moved to a better room? ({g})"])
    return {"request": text.format(g=guest, b=target), "guest": guest, "bookings": bookings, "target": target, "member": member, "opened": set()}


def act(name, given):
    if name == "get_guest":
        if given["guest_id"] != S["guest"]:
            return "Error: no such guest", True
        return json.dumps({"guest_id": S["guest"], "bookings": list(S["bookings"])}), False
    key = given["booking_id"]
    if key not in S["bookings"]:
        return "Error: no such booking", True
    if name == "get_booking":
        S["opened"].add(key)
        return json.dumps(S["bookings"][key]), False
    S["log"].append((name, key, bool(S["opened"])))
    return json.dumps({"ok": True}), False


def judge():
    looked = bool(S["opened"]) and all(seen for *_, seen in S["log"])
    want = "upgrade_room" if S["member"] else "send_water"
    right = looked and [(n, k) for n, k, _ in S["log"]] == [(want, S["target"])]
    return [("opened", "action", looked, 1), ("room", "state", right, 2), ("told", "communicate", right and bool(S["last"].strip()), 1)]


def solve(s):
    key = {"booking_id": s["target"]}
    if s["member"]:
        return [("get_booking", key), ("upgrade_room", key), "Your room is upgraded."]
    return [("get_booking", key), ("send_water", key), "I cannot upgrade this booking, but there is water in your room."]


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
