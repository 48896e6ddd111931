"""Airline: count the bags that are free by membership and cabin."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """# Airline Agent Policy
Free checked bags for each passenger: regular member 0 in basic economy, 1 in economy, 2 in business; silver member 1, 2 and
3; gold member 2, 3 and 4. Each extra bag is 50 dollars. Bags can be added but not removed: a user who wants fewer than
the reservation has is refused. Read the user and the reservation, then update the total and the bags that are not free."""

TOOLS = [
    _t("get_user_details", "Get the details of a user.", ["user_id"], user_id="string"),
    _t("get_reservation_details", "Get the details of a reservation.", ["reservation_id"], reservation_id="string"),
    _t(
        "update_reservation_baggages",
        "Update the baggage information of a reservation.",
        ["reservation_id", "total_baggages", "nonfree_baggages"],
        reservation_id="string",
        total_baggages="integer",
        nonfree_baggages="integer",
    ),
]

FREE = {
    "regular": {"basic_economy": 0, "economy": 1, "business": 2},
    "silver": {"basic_economy": 1, "economy": 1, "business": 3},
    "gold": {"basic_economy": 2, "economy": 3, "business": 4},
}


def scene(seed):
    rng = random.Random(seed + 60_000)
    user = f"{rng.choice(['yusuf', 'sofia', 'juan'])}_{rng.choice(['li', 'kim', 'garcia'])}_{rng.randint(1000, 9999)}"
    number = "".join(rng.choice("ABCDEFGHJKLMNPQRSTUVWXYZ0123456789") for _ in range(6))
    level, cabin, people = rng.choice(list(FREE)), rng.choice(["basic_economy", "economy", "business"]), rng.randint(1, 3)
    adds = seed % 2 == 0
    now = rng.randint(0, 3) if adds else rng.randint(3, 6)
    total = now + rng.randint(1, 5) if adds else now - rng.randint(1, 2)
    text = rng.choice(["I am {u}; reservation {r} should have {t} checked bags in total.", "{u}: make it {t} bags altogether for {r}.", "Please set the bags of {r} to {t}. User {u}."])
    return {
        "request": text.format(u=user, r=number, t=total),
        "user": {"user_id": user, "membership": level, "reservations": [number]},
        "record": {"reservation_id": number, "user_id": user, "cabin": cabin, "passengers": people, "total_baggages": now},
        "want": (total, max(0, total - people * FREE[level][cabin])) if adds else None,
        "seen": set(),
    }


def act(name, given):
    if name == "get_user_details":
        if given["user_id"] != S["user"]["user_id"]:
            return "Error: User not found", True
        S["seen"].add("user")
        return json.dumps(S["user"]), False
    if given["reservation_id"] != S["record"]["reservation_id"]:
        return "Error: Reservation not found", True
    if name == "get_reservation_details":
        S["seen"].add("record")
        return json.dumps(S["record"]), False
    S["log"].append((given["total_baggages"], given["nonfree_baggages"]))
    return json.dumps({**S["record"], "total_baggages": given["total_baggages"]}), False


def judge():
    read = "record" in S["seen"] and ("user" in S["seen"] or S["want"] is None)
    right = read and S["log"] == ([S["want"]] if S["want"] else [])
    return [("read", "action", read, 1), ("bags", "state", right, 3), ("told", "communicate", right and bool(S["last"].strip()), 1)]


def solve(s):
    steps = [("get_reservation_details", {"reservation_id": s["record"]["reservation_id"]}), ("get_user_details", {"user_id": s["user"]["user_id"]})]
    if s["want"]:
        total, paid = s["want"]
        call = {"reservation_id": s["record"]["reservation_id"], "total_baggages": total, "nonfree_baggages": paid}
        return [*steps, ("update_reservation_baggages", call), f"You have {total} bags now, {paid} of them at 50 dollars."]
    return [steps[0], "I am sorry, bags can be added but not removed."]


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
