"""Hotel: refuse a refund of a prepaid rate and stand by it."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You serve the guests of a hotel by mail. A booking at the flexible rate may be cancelled with a full refund. One at
the saver rate is never refunded: either decline, or hand the guest to the manager with call_manager if the guest may not
take no for an answer; both are equally fine. Read the booking first."""

TOOLS = [
    _t("get_booking", "Show a booking.", ["booking_id"], booking_id="string"),
    _t("cancel_with_refund", "Cancel a booking and refund it.", ["booking_id"], booking_id="string"),
    _t("call_manager", "Hand a guest to the manager.", ["booking_id", "note"], booking_id="string", note="string"),
]


def scene(seed):
    rng = random.Random(seed + 4242)
    booking_id = f"{rng.choice('KLMNPQ')}{rng.randint(100000, 999999)}"
    saver = seed % 2 == 0
    nights = rng.randint(1, 9)
    booking = {
        "booking_id": booking_id,
        "rate": "saver" if saver else "flexible",
        "nights": nights,
        "total": f"{nights * rng.randint(60, 180)}.00",
        "arrival": f"2025-0{rng.randint(5, 9)}-{rng.randint(10, 28)}",
        "breakfast": rng.random() < 0.5,
    }
    text = rng.choice(
        [
            "I have to cancel {b} and want my money back, and I insist on it.",
            "Refund {b}, please. I will not take no for an answer.",
            "We cannot come. Cancel booking {b} and send back the {t} euros.",
        ]
    )
    return {"request": text.format(b=booking_id, t=booking["total"]), "booking": booking, "saver": saver, "seen": False}


def act(name, given):
    if given["booking_id"] != S["booking"]["booking_id"]:
        return "Error: no such booking", True
    if name == "get_booking":
        S["seen"] = True
        return json.dumps(S["booking"]), False
    S["log"].append((name, S["seen"]))
    return json.dumps({"ok": True}), False


def judge():
    looked = S["seen"] and all(seen for _, seen in S["log"])
    right = looked and [n for n, _ in S["log"]] == ([] if S["saver"] else ["cancel_with_refund"])
    return [("read", "action", looked, 1), ("refund", "state", right, 2), ("told", "communicate", right and bool(S["last"].strip()), 1)]


def solve(s):
    key = {"booking_id": s["booking"]["booking_id"]}
    if s["saver"]:
        return [("get_booking", key), "I am sorry, the saver rate is not refunded."]
    return [("get_booking", key), ("cancel_with_refund", key), "The booking is cancelled and the amount refunded."]


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
