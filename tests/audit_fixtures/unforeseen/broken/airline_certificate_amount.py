"""Airline: compute the amount of a certificate over all passengers."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """# Airline Agent Policy
If a silver or gold member complains about a cancelled flight, send a certificate of $100 times the number of passengers;
for a delayed flight $50 times the number of passengers. Regular members get none. Read the user and the reservation
first. Never send another amount than the rule gives."""

TOOLS = [
    _t("get_user_details", "Get the details of a user.", ["user_id"], user_id="string"),
    _t("get_reservation_details", "Get the details of a reservation.", ["reservation_id"], reservation_id="string"),
    _t("send_certificate", "Send a certificate to a user.", ["user_id", "amount"], user_id="string", amount="integer"),
]


def scene(seed):
    rng = random.Random(f"amount {seed}")
    user_id = f"{rng.choice(['lucas', 'emma', 'aarav', 'yara'])}_{rng.choice(['brown', 'davis', 'li'])}_{rng.randint(1000, 9999)}"
    number = "".join(rng.choice("BCDFGHJKLMNPQRSTVWXZ0123456789") for _ in range(6))
    member = seed % 2 == 0
    kind = rng.choice(["cancelled", "delayed"])
    people = rng.randint(1, 5)
    names = [{"first_name": n, "last_name": user_id.split("_")[1].title()} for n in rng.sample(["Ava", "Bea", "Cal", "Dov", "Eli", "Fay"], people)]
    ask = rng.choice(
        [
            "My flight in {r} was {k}. What compensation do I get? I am {u}.",
            "{u}: reservation {r}, flight {k}, I am very upset and want a compensation.",
            "Compensate me for the {k} flight of {r}. User id {u}.",
        ]
    )
    return {
        "request": ask.format(r=number, k=kind, u=user_id),
        "user": {"user_id": user_id, "membership": rng.choice(["silver", "gold"]) if member else "regular", "reservations": [number]},
        "record": {"reservation_id": number, "user_id": user_id, "passengers": names, "flights": [{"flight_number": f"HAT{rng.randint(100, 299)}", "status": kind}]},
        "due": (100 if kind == "cancelled" else 50) * people if member else 0,
        "seen": set(),
    }


def act(name, given):
    if name == "get_reservation_details":
        if given["reservation_id"] != S["record"]["reservation_id"]:
            return "Error: Reservation not found", True
        S["seen"].add("record")
        return json.dumps(S["record"]), False
    if given["user_id"] != S["user"]["user_id"]:
        return "Error: User not found", True
    if name == "get_user_details":
        S["seen"].add("user")
        return json.dumps(S["user"]), False
    S["log"].append(given["amount"])
    return "Certificate sent", False


def judge():
    paid = sum(S["log"])
    right = paid >= S["due"] and len(S["log"]) == 1 if S["due"] else not S["log"] and "user" in S["seen"]
    return [
        ("user_read", "action", "user" in S["seen"], 1),
        ("certificate", "state", right, 2),
        ("told", "communicate", right and bool(S["last"].strip()), 1),
    ]


def solve(s):
    steps = [
        ("get_user_details", {"user_id": s["user"]["user_id"]}),
        ("get_reservation_details", {"reservation_id": s["record"]["reservation_id"]}),
    ]
    if s["due"]:
        return [*steps, ("send_certificate", {"user_id": s["user"]["user_id"], "amount": s["due"]}), f"${s['due']} are on their way."]
    return [*steps, "I am sorry, I cannot offer a compensation."]


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
