"""Airline: compute what the rule grants from a full record."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """# Airline Agent Policy
If a user complains about a cancelled flight, and is a silver or gold member or has travel insurance or flies business, send
a certificate of $100 times the number of passengers; for a delayed flight $50 times that number. Otherwise send none.
Confirm the facts with the user's profile and the reservation. The status of the flight stands in the reservation."""

TOOLS = [
    _t("get_user_details", "Get the details of a user.", ["user_id"], user_id="string"),
    _t("get_reservation_details", "Get the details of a reservation.", ["reservation_id"], reservation_id="string"),
    _t("send_certificate", "Send a certificate to a user.", ["user_id", "amount"], user_id="string", amount="integer"),
]

FIRST = ["Sophia", "Mateo", "Aarav", "Yara", "Liam", "Noor", "Ingrid", "Kwame"]
LAST = ["Silva", "Patel", "Hernandez", "Nowak", "Okoro", "Lindt"]


def scene(seed):
    rng = random.Random(f"full/{seed}")
    first, last = rng.choice(FIRST), rng.choice(LAST)
    user_id = f"{first.lower()}_{last.lower()}_{rng.randint(1000, 9999)}"
    number = "".join(rng.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") for _ in range(6))
    # Each ground alone, none, or a complaint that the record does not bear out.
    case = ["member", "none", "insurance", "untrue", "business", "none", "member", "untrue"][seed % 8]
    said = rng.choice(["cancelled", "delayed"])
    status = rng.choice(["landed", "on time"]) if case == "untrue" else said
    people = [{"first_name": n, "last_name": rng.choice(LAST), "dob": f"19{rng.randint(50, 99)}-0{rng.randint(1, 9)}-{rng.randint(10, 28)}"} for n in rng.sample(FIRST, rng.randint(1, 5))]
    card = f"credit_card_{rng.randint(1000000, 9999999)}"
    user = {
        "user_id": user_id,
        "name": {"first_name": first, "last_name": last},
        "address": {"address1": f"{rng.randint(1, 999)} Oak Street", "city": "Denver", "country": "USA", "state": "CO", "zip": f"802{rng.randint(10, 99)}"},
        "email": f"{first.lower()}.{last.lower()}@example.com",
        "dob": f"19{rng.randint(50, 99)}-05-1{rng.randint(0, 9)}",
        "payment_methods": {card: {"source": "credit_card", "id": card, "brand": "visa", "last_four": str(rng.randint(1000, 9999))}},
        "saved_passengers": people[:2],
        "membership": rng.choice(["silver", "gold"]) if case in ("member", "untrue") else "regular",
        "reservations": [number],
    }
    record = {
        "reservation_id": number,
        "user_id": user_id,
        "origin": "BOS",
        "destination": rng.choice(["MIA", "LAX", "PHX"]),
        "flight_type": "one_way",
        "cabin": "business" if case == "business" else rng.choice(["economy", "basic_economy"]),
        "flights": [{"flight_number": f"HAT{rng.randint(100, 299)}", "date": f"2024-05-{rng.randint(10, 14)}", "price": rng.randint(60, 900), "status": status}],
        "passengers": people,
        "payment_history": [{"payment_id": card, "amount": rng.randint(100, 3000)}],
        "created_at": f"2024-05-0{rng.randint(1, 9)}T{rng.randint(10, 23)}:{rng.randint(10, 59)}:{rng.randint(10, 59)}",
        "total_baggages": rng.randint(0, 5),
        "nonfree_baggages": 0,
        "insurance": "yes" if case == "insurance" else "no",
    }
    due = (100 if said == "cancelled" else 50) * len(people) if case in ("member", "insurance", "business") else 0
    text = rng.choice(["My flight in {r} was {k}! I want a compensation. ({u})", "{u}: what do I get for the {k} flight of {r}?", "Reservation {r}, user {u}. The flight was {k}; please compensate me."])
    return {"request": text.format(r=number, k=said, u=user_id), "user": user, "record": record, "due": due, "seen": set()}


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
    S["log"].append((given["amount"], "record" in S["seen"]))
    return f"Certificate of {given['amount']} added", False


def judge():
    # Who finds the complaint untrue, or insurance or business, in the reservation need not open the profile.
    read = "record" in S["seen"] and all(seen for _, seen in S["log"])
    r = S["record"]
    plain = r["insurance"] == "no" and r["cabin"] != "business" and r["flights"][0]["status"] in ("cancelled", "delayed")
    read = read and (not plain or "user" in S["seen"])
    right = read and [a for a, _ in S["log"]] == ([S["due"]] if S["due"] else [])
    return [("facts_confirmed", "action", read, 1), ("certificate", "state", right, 2), ("answered", "communicate", right and bool(S["last"].strip()), 1)]


def solve(s):
    steps = [("get_user_details", {"user_id": s["user"]["user_id"]}), ("get_reservation_details", {"reservation_id": s["record"]["reservation_id"]})]
    if s["due"]:
        return [*steps, ("send_certificate", {"user_id": s["user"]["user_id"], "amount": s["due"]}), f"A certificate of ${s['due']} has been sent."]
    return [*steps, "I am sorry, there is no compensation for this."]


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
