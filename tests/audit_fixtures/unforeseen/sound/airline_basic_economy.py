"""Airline: change a reservation only as its cabin and its flights allow."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """# Airline Agent Policy
Basic economy flights cannot be modified: deny the request. The flights of other reservations can be modified without
changing origin and destination. The cabin of every reservation, basic economy included, can be changed unless
a flight in it has been flown. The API does not check these rules.
Do not transfer what can be settled by these rules. The user has confirmed the details."""

TOOLS = [
    _t("get_reservation_details", "Get the details of a reservation.", ["reservation_id"], reservation_id="string"),
    _t("update_reservation_flights", "Put a reservation on another flight.", ["reservation_id", "flight_number", "date"], reservation_id="string", flight_number="string", date="string"),
    _t("update_reservation_cabin", "Change the cabin of a reservation.", ["reservation_id", "cabin"], reservation_id="string", cabin={"type": "string", "enum": ["basic_economy", "economy", "business"]}),
    _t("transfer_to_human_agents", "Transfer the user to a human agent.", ["summary"], summary="string"),
]


def scene(seed):
    rng = random.Random(seed + 123456)
    number = "".join(rng.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") for _ in range(6))
    refuse = seed % 2 == 0
    # Both wishes come with both outcomes: flights by the cabin, cabins by whether a flight has been flown.
    cabin_wish = rng.random() < 0.3
    cabin = rng.choice(["basic_economy", "economy", "business"])
    if not cabin_wish:
        cabin = "basic_economy" if refuse else rng.choice(["economy", "business"])
    flight = {"origin": "SEA", "destination": rng.choice(["SFO", "DEN", "ORD"]), "flight_number": f"HAT{rng.randint(100, 199)}", "date": f"2024-05-{rng.randint(17, 22)}"}
    flight["status"] = "flown" if cabin_wish and refuse else "not flown"
    record = {"reservation_id": number, "cabin": cabin, "flights": [flight], "passengers": rng.randint(1, 4), "insurance": rng.choice(["yes", "no"])}
    if cabin_wish:
        new = rng.choice([c for c in ("economy", "business") if c != cabin])
        want = None if refuse else ("update_reservation_cabin", {"reservation_id": number, "cabin": new})
        text = rng.choice(["Please put {r} into {n}.", "I would like {n} for reservation {r}."]).format(r=number, n=new)
    else:
        new = {"flight_number": f"HAT{rng.randint(200, 299)}", "date": f"2024-05-{rng.randint(23, 29)}"}
        want = None if refuse else ("update_reservation_flights", {"reservation_id": number, **new})
        text = rng.choice(["Move {r} to {flight_number} on {date}.", "I want to fly {flight_number} on {date} instead. Reservation {r}.", "Could {r} be changed to {flight_number}, {date}?"]).format(r=number, **new)
    return {"request": text, "record": record, "want": want, "seen": False}


def act(name, given):
    if name == "transfer_to_human_agents":
        S["log"].append((name, dict(given), S["seen"]))
        return "Transfer successful", False
    if given["reservation_id"] != S["record"]["reservation_id"]:
        return "Error: Reservation not found", True
    if name == "get_reservation_details":
        S["seen"] = True
        return json.dumps(S["record"]), False
    S["log"].append((name, dict(given), S["seen"]))
    if name == "update_reservation_cabin":
        S["record"]["cabin"] = given["cabin"]
    else:
        S["record"]["flights"][0].update(flight_number=given["flight_number"], date=given["date"])
    return json.dumps(S["record"]), False


def judge():
    looked = S["seen"] and all(seen for *_, seen in S["log"])
    right = looked and [(n, a) for n, a, _ in S["log"]] == ([S["want"]] if S["want"] else [])
    return [("read", "action", looked, 1), ("reservation", "state", right, 2), ("answered", "communicate", right and bool(S["last"].strip()), 1)]


def solve(s):
    look = ("get_reservation_details", {"reservation_id": s["record"]["reservation_id"]})
    return [look, s["want"], "It is changed."] if s["want"] else [look, "I am sorry, the rules for this reservation do not allow that."]


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
