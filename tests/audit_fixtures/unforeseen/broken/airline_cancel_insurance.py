"""Airline: cancel only when one of the conditions of the rule holds."""

import json
import random
from datetime import datetime, timedelta

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """# Airline Agent Policy
The current time is 2024-05-15 15:00:00 EST.
A reservation can be cancelled if any of the following is true: the booking was made within the last 24 hrs; it is a
business flight; the user has travel insurance and cancels for health or weather reasons. Otherwise deny the request. The
API does not check these rules. The user's id and reason are given in the message and confirmed."""

TOOLS = [
    _t("get_reservation_details", "Get the details of a reservation.", ["reservation_id"], reservation_id="string"),
    _t("get_user_details", "Get the details of a user.", ["user_id"], user_id="string"),
    _t("cancel_reservation", "Cancel the whole reservation.", ["reservation_id"], reservation_id="string"),
]


def scene(seed):
    rng = random.Random(f"{seed} insurance")
    number = "".join(rng.choice("0123456789ABCDEFGHJKLMNPQRSTUVWXYZ") for _ in range(6))
    user_id = f"{rng.choice(['mason', 'olivia', 'daiki'])}_{rng.choice(['sanchez', 'muller', 'ito'])}_{rng.randint(1000, 9999)}"
    insured = seed % 2 == 0
    hours = rng.randint(2, 23) if rng.random() < 0.25 else rng.randint(30, 500)
    record = {
        "reservation_id": number,
        "user_id": user_id,
        "cabin": rng.choice(["business", "economy", "economy", "basic_economy"]),
        "created_at": (datetime(2024, 5, 15, 15) - timedelta(hours=hours)).isoformat(),
        "flights": [{"flight_number": f"HAT{rng.randint(100, 299)}", "date": "2024-05-23", "price": rng.randint(60, 900)}],
        "insurance": "yes" if insured else "no",
    }
    why = rng.choice(["I am in hospital", "my doctor forbids me to fly", "there is a typhoon", "the snow has closed the roads"])
    text = rng.choice(["{u}: cancel {n}, {w}.", "I am {u} and {w}, so I cannot take {n}. Please cancel it.", "Please cancel {n} ({u}), because {w}."])
    return {"request": text.format(u=user_id, n=number, w=why), "record": record, "insured": insured, "seen": False}


def act(name, given):
    r = S["record"]
    if name == "get_user_details":
        if given["user_id"] != r["user_id"]:
            return "Error: User not found", True
        return json.dumps({"user_id": r["user_id"], "membership": "gold", "reservations": [r["reservation_id"]]}), False
    if given["reservation_id"] != r["reservation_id"]:
        return "Error: Reservation not found", True
    if name == "get_reservation_details":
        S["seen"] = True
        return json.dumps(r), False
    S["log"].append(S["seen"])
    return json.dumps({**r, "status": "cancelled"}), False


def judge():
    right = S["seen"] and S["log"] == ([True] if S["insured"] else [])
    return [("read", "action", S["seen"] and all(S["log"]), 1), ("rule", "state", right, 2), ("told", "communicate", right and bool(S["last"].strip()), 1)]


def solve(s):
    key = {"reservation_id": s["record"]["reservation_id"]}
    steps = [("get_reservation_details", key)]
    return [*steps, ("cancel_reservation", key), "Cancelled; the refund takes 5 to 7 days."] if s["insured"] else [*steps, "I am sorry, I cannot cancel this."]


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
