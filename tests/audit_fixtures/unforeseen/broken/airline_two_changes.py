"""Airline: complete every part of a request, as far as the fare allows it."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """# Airline Agent Policy
Baggage can be added to every reservation. Passenger names can be corrected in every reservation that has not been
flown; in a flown one they cannot. Read the reservation first, do all that is allowed, and say what was not."""

TOOLS = [
    _t("get_reservation_details", "Get the details of a reservation.", ["reservation_id"], reservation_id="string"),
    _t("update_reservation_baggages", "Update the baggage information.", ["reservation_id", "total_baggages"], reservation_id="string", total_baggages="integer"),
    _t(
        "update_reservation_passengers",
        "Update the passenger information.",
        ["reservation_id", "passengers"],
        reservation_id="string",
        passengers={"type": "array", "items": {"type": "object"}},
    ),
]

FIRST = ["Amelia", "Noah", "Fatima", "Chen", "Isla", "Omar", "Harper"]
LAST = ["Smith", "Santos", "Kovacs", "Lee", "Muller"]


def scene(seed):
    rng = random.Random(f"two changes {seed}")
    number = "".join(rng.choice("ABCDEFGHJKMNPQRSTUVWXYZ2345678") for _ in range(6))
    flown = seed % 2 == 0
    bags = rng.randint(0, 2)
    passenger = {"first_name": rng.choice(FIRST), "last_name": rng.choice(LAST), "dob": f"19{rng.randint(50, 99)}-0{rng.randint(1, 9)}-1{rng.randint(0, 9)}"}
    wrong = {**passenger, "first_name": passenger["first_name"][:-1]}
    record = {
        "reservation_id": number,
        "flights": [{"flight_number": f"HAT{rng.randint(100, 299)}", "date": "2024-05-21", "flown": flown}],
        "passengers": [wrong],
        "total_baggages": bags,
    }
    a = f"the passenger should read {passenger['first_name']} {passenger['last_name']}, born {passenger['dob']}"
    b = f"we will have {bags + 1} checked {'bag' if bags == 0 else 'bags'} in total"
    first, second = (a, b) if rng.random() < 0.5 else (b, a)
    text = f"{rng.choice(['Two things about', 'Concerning', 'For'])} reservation {number}: {first}, and {second}."
    return {"request": text, "record": record, "flown": flown, "bags": bags + 1, "passenger": passenger, "seen": False}


def act(name, given):
    if given["reservation_id"] != S["record"]["reservation_id"]:
        return "Error: Reservation not found", True
    if name == "get_reservation_details":
        S["seen"] = True
    elif name == "update_reservation_baggages":
        S["log"].append(("bags", given["total_baggages"]))
        S["record"]["total_baggages"] = given["total_baggages"]
    else:
        S["log"].append(("people", given["passengers"]))
        S["record"]["passengers"] = given["passengers"]
    return json.dumps(S["record"]), False


def judge():
    want = [("bags", S["bags"])] if S["flown"] else [("people", [S["passenger"]]), ("bags", S["bags"])]
    right = S["seen"] and S["log"] == want
    part = S["seen"] and bool(S["log"]) and S["log"] == want[: len(S["log"])]
    return [
        ("read", "action", S["seen"], 1),
        ("begun", "state", part, 1),
        ("all_changes", "state", right, 2),
        ("told", "communicate", right and bool(S["last"].strip()), 1),
    ]


def solve(s):
    key = {"reservation_id": s["record"]["reservation_id"]}
    steps = [("get_reservation_details", key)]
    if not s["flown"]:
        steps.append(("update_reservation_passengers", {**key, "passengers": [s["passenger"]]}))
    steps.append(("update_reservation_baggages", {**key, "total_baggages": s["bags"]}))
    return [*steps, "The name cannot be changed any more, the baggage is updated." if s["flown"] else "Both are updated."]


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
