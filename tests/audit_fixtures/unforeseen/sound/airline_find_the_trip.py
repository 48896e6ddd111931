"""Airline: find the reservation that a user means before it is cancelled."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """# Airline Agent Policy
If the user does not know the reservation id, help locate it with the tools: the profile lists the reservations. Business
reservations can be cancelled; economy ones cannot, so deny. Open the reservation before you act. If none or several fit
what the user says, cancel nothing and tell the user."""

TOOLS = [
    _t("get_user_details", "Get the details of a user, including their reservations.", ["user_id"], user_id="string"),
    _t("get_reservation_details", "Get the details of a reservation.", ["reservation_id"], reservation_id="string"),
    _t("cancel_reservation", "Cancel the whole reservation.", ["reservation_id"], reservation_id="string"),
]

CITIES = {"SEA": "Seattle", "BOS": "Boston", "MIA": "Miami", "DEN": "Denver", "PHX": "Phoenix", "ATL": "Atlanta", "ORD": "Chicago"}


def scene(seed):
    rng = random.Random(seed * 7 + 3)
    user_id = f"{rng.choice(['ana', 'bo', 'cem', 'dita', 'eero'])}_{rng.choice(['ross', 'sato', 'tamm', 'urban'])}_{rng.randint(1000, 9999)}"
    codes = rng.sample(list(CITIES), 4)
    trips = {}
    for code in codes[:3]:
        number = "".join(rng.choice("ABCDEFGHJKLMNPQRSTUVWXYZ23456789") for _ in range(6))
        trips[number] = {"reservation_id": number, "user_id": user_id, "origin": "JFK", "destination": code, "cabin": rng.choice(["business", "economy"]), "date": f"2024-05-{rng.randint(18, 30)}"}
    named = seed % 4 < 2
    allowed = seed % 2 == 0
    target = rng.choice(list(trips))
    trips[target]["cabin"] = "business" if allowed else rng.choice(["economy", "basic_economy"])
    place = CITIES[trips[target]["destination"]]
    missing = not named and not allowed and rng.random() < 0.5
    if missing:
        place = CITIES[codes[3]]
    if named:
        text = rng.choice(["Cancel {n}, please. I am {u}.", "{u}: I have to cancel reservation {n}."]).format(n=target, u=user_id)
    else:
        text = rng.choice(["I am {u}. Please cancel my trip to {p}.", "{u} here, I cannot go to {p} after all, cancel that one."]).format(p=place, u=user_id)
    return {"request": text, "user": user_id, "trips": trips, "target": None if missing else target, "named": named, "allowed": allowed, "opened": set()}


def act(name, given):
    if name == "get_user_details":
        if given["user_id"] != S["user"]:
            return "Error: User not found", True
        return json.dumps({"user_id": S["user"], "membership": "regular", "reservations": list(S["trips"])}), False
    key = given["reservation_id"]
    if key not in S["trips"]:
        return "Error: Reservation not found", True
    if name == "get_reservation_details":
        S["opened"].add(key)
        return json.dumps(S["trips"][key]), False
    S["log"].append((key, key in S["opened"]))
    return json.dumps({**S["trips"][key], "status": "cancelled"}), False


def judge():
    # Where the trip is not there at all, only all of them show that.
    opened = S["target"] in S["opened"] if S["target"] else S["opened"] == set(S["trips"])
    opened = opened and all(seen for _, seen in S["log"])
    right = opened and [k for k, _ in S["log"]] == ([S["target"]] if S["allowed"] else [])
    return [("opened", "action", opened, 1), ("trip", "state", right, 2), ("answered", "communicate", right and bool(S["last"].strip()), 1)]


def solve(s):
    steps = []
    if s["named"]:
        steps.append(("get_reservation_details", {"reservation_id": s["target"]}))
    else:
        steps.append(("get_user_details", {"user_id": s["user"]}))
        for key in s["trips"]:
            steps.append(("get_reservation_details", {"reservation_id": key}))
            if key == s["target"]:
                break
    if s["allowed"]:
        return [*steps, ("cancel_reservation", {"reservation_id": s["target"]}), "The reservation is cancelled."]
    return [*steps, "I am sorry, there is nothing here that I could cancel."]


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
