"""Airline: check every condition of the cancellation rule against the record."""

import json
import random
from datetime import datetime, timedelta

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """# Airline Agent Policy
The current time is 2024-05-15 15:00:00 EST.
A flight can be cancelled if any of the following is true: the booking was made within the last 24 hrs; it is a business
flight; the user has travel insurance and the reason is covered by it (health or weather). If any portion of the flight
has already been flown, transfer the user to a human agent. Otherwise deny. The API does not check these rules."""

TOOLS = [
    _t("get_reservation_details", "Get the details of a reservation.", ["reservation_id"], reservation_id="string"),
    _t("cancel_reservation", "Cancel the whole reservation.", ["reservation_id"], reservation_id="string"),
    _t("transfer_to_human_agents", "Transfer the user to a human agent.", ["summary"], summary="string"),
]

NOW = datetime(2024, 5, 15, 15)
WHY = {"covered": ["I have the flu", "a hurricane is coming"], "other": ["my plans have changed", "I found a cheaper one"]}


def scene(seed):
    rng = random.Random(seed + 1_000_003)
    number = "".join(rng.choice("ACDEFGHJKLMNPQRTUVWXY3479") for _ in range(6))
    why = rng.choice(list(WHY))
    flown = rng.random() < 0.2
    cabin = rng.choice(["business", "economy", "economy", "basic_economy"])
    insured = rng.random() < 0.4
    hours = rng.randint(1, 23) if rng.random() < 0.2 else rng.randint(25, 300)
    allowed = cabin == "business" or (insured and why == "covered") or hours < 24
    want = "transfer_to_human_agents" if flown else "cancel_reservation" if allowed else None
    record = {
        "reservation_id": number,
        "cabin": cabin,
        "flights": [
            {"flight_number": f"HAT{rng.randint(100, 299)}", "date": "2024-05-12" if flown else "2024-05-20", "price": rng.randint(80, 700)},
            {"flight_number": f"HAT{rng.randint(100, 299)}", "date": "2024-05-24", "price": rng.randint(80, 700)},
        ],
        "created_at": (NOW - timedelta(hours=hours)).isoformat(),
        "insurance": "yes" if insured else "no",
        "fare_basis": {"code": f"{rng.choice('YBMHQ')}{rng.randint(10, 99)}", "release": {"cancel_reservation": "R", "transfer_to_human_agents": "H", None: "N"}[want]},
    }
    text = rng.choice(["Please cancel {n}, {w}.", "I need to cancel reservation {n} because {w}.", "{n} has to be cancelled: {w}!"])
    return {"request": text.format(n=number, w=rng.choice(WHY[why])), "record": record, "want": want, "seen": False}


def act(name, given):
    if name == "transfer_to_human_agents":
        S["log"].append(name)
        return "Transfer successful", False
    if given["reservation_id"] != S["record"]["reservation_id"]:
        return "Error: Reservation not found", True
    if name == "get_reservation_details":
        S["seen"] = True
        return json.dumps(S["record"]), False
    S["log"].append(name)
    return json.dumps({**S["record"], "status": "cancelled"}), False


def judge():
    right = S["seen"] and S["log"] == ([S["want"]] if S["want"] else [])
    return [("read", "action", S["seen"], 1), ("rule", "state", right, 2), ("told", "communicate", right and bool(S["last"].strip()), 1)]


def solve(s):
    key = {"reservation_id": s["record"]["reservation_id"]}
    steps = [("get_reservation_details", key)]
    if s["want"] == "cancel_reservation":
        return [*steps, ("cancel_reservation", key), "The reservation is cancelled."]
    if s["want"]:
        return [*steps, ("transfer_to_human_agents", {"summary": "a portion is flown"}), "YOU ARE BEING TRANSFERRED TO A HUMAN AGENT. PLEASE HOLD ON."]
    return [*steps, "I am sorry, this reservation cannot be cancelled."]


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
