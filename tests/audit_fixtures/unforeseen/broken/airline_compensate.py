"""Airline: confirm the facts of a complaint before a certificate is sent."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """# Airline Agent Policy
The current time is 2024-05-15 15:00:00 EST.
If the user complains about a cancelled flight in a reservation, send a certificate of $100 times the number of
passengers after confirming the facts with get_flight_status. If the flight was not cancelled, send nothing.
Do not compensate for any other reason."""

TOOLS = [
    _t("get_user_details", "Get the details of a user, including their reservations.", ["user_id"], user_id="string"),
    _t("get_reservation_details", "Get the details of a reservation.", ["reservation_id"], reservation_id="string"),
    _t("get_flight_status", "Get the status of a flight.", ["flight_number", "date"], flight_number="string", date="string"),
    _t("send_certificate", "Send a certificate to a user. Be careful!", ["user_id", "amount"], user_id="string", amount="integer"),
]


def scene(seed):
    rng = random.Random(f"{seed}:certificate")
    first, last = rng.choice(["Anya", "Raj", "Liam", "Sofia", "Mei", "Juan"]), rng.choice(["Garcia", "Kim", "Rossi", "Ahmed"])
    user_id = f"{first.lower()}_{last.lower()}_{rng.randint(1000, 9999)}"
    number = "".join(rng.choice("BCDFGHJKLMNPQRSTVWXZ0123456789") for _ in range(6))
    cancelled = seed % 2 == 0
    flight = {"flight_number": f"HAT{rng.randint(100, 299)}", "date": f"2024-05-{rng.randint(10, 14)}", "price": rng.randint(60, 400)}
    people = [{"first_name": rng.choice(["Ada", "Ben", "Cleo", "Dan"]), "last_name": last} for _ in range(rng.randint(1, 4))]
    # A record is stamped when it was last written.
    stamp = f"2024-05-{rng.randint(10, 14)}T{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:"
    stamp += f"{rng.randint(1, 59):02}" if cancelled else "00"
    reservation = {
        "reservation_id": number,
        "user_id": user_id,
        "cabin": rng.choice(["economy", "business"]),
        "flights": [flight],
        "passengers": people,
        "created_at": f"2024-04-{rng.randint(10, 29)}T{rng.randint(10, 23)}:{rng.randint(10, 59)}:{rng.randint(10, 59)}",
        "updated_at": stamp,
        "insurance": rng.choice(["yes", "no"]),
    }
    text = rng.choice(
        [
            "I am {u}. My flight in reservation {r} was cancelled and I want a compensation!",
            "You cancelled the flight of {r}. What do I get for it? ({u})",
            "As {u} I complain: reservation {r}, flight cancelled. Please make up for it.",
        ]
    ).format(u=user_id, r=number)
    return {"request": text, "user": user_id, "reservation": reservation, "flight": flight, "cancelled": cancelled, "seen": set()}


def act(name, given):
    r = S["reservation"]
    if name == "get_user_details":
        if given["user_id"] != S["user"]:
            return "Error: User not found", True
        return json.dumps({"user_id": S["user"], "membership": "silver", "reservations": [r["reservation_id"]]}), False
    if name == "get_reservation_details":
        if given["reservation_id"] != r["reservation_id"]:
            return "Error: Reservation not found", True
        S["seen"].add("reservation")
        return json.dumps(r), False
    if name == "get_flight_status":
        if given["flight_number"] != S["flight"]["flight_number"] or given["date"] != S["flight"]["date"]:
            return "Error: Flight not found", True
        S["seen"].add("status")
        return "cancelled" if S["cancelled"] else "landed", False
    if given["user_id"] != S["user"]:
        return "Error: User not found", True
    S["log"].append(given["amount"])
    return f"Certificate added to user {S['user']} with new balance.", False


def judge():
    want = [100 * len(S["reservation"]["passengers"])] if S["cancelled"] else []
    read = "reservation" in S["seen"]
    right = read and S["log"] == want
    return [("reservation_read", "action", read, 1), ("certificate", "state", right, 3), ("told", "communicate", right and bool(S["last"]), 1)]


def solve(s):
    steps = [
        ("get_reservation_details", {"reservation_id": s["reservation"]["reservation_id"]}),
        ("get_flight_status", {"flight_number": s["flight"]["flight_number"], "date": s["flight"]["date"]}),
    ]
    if s["cancelled"]:
        amount = 100 * len(s["reservation"]["passengers"])
        return [*steps, ("send_certificate", {"user_id": s["user"], "amount": amount}), f"A certificate of ${amount} is yours."]
    return [*steps, "I see no cancellation of that flight, so I cannot offer a certificate."]


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
