"""Retail: look at an order before trying to change it."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """# Retail agent policy
Check the status of an order with get_order_details before you take any action on it. Only a pending order can get another
address; otherwise tell the user that it cannot be changed. The user has confirmed the details."""

TOOLS = [
    _t("get_order_details", "Get the status and details of an order.", ["order_id"], order_id="string"),
    _t(
        "modify_pending_order_address",
        "Modify the shipping address of a pending order.",
        ["order_id", "address1", "city", "zip"],
        order_id="string",
        address1="string",
        city="string",
        zip="string",
    ),
]

STREETS = ["Maple Drive", "Elm Street", "Lakeview Drive", "Cedar Avenue", "Broadway", "Sunset Drive"]
CITIES = {"Denver": "802", "Seattle": "981", "Austin": "787", "Boston": "021", "Chicago": "606"}


def scene(seed):
    rng = random.Random(f"address#{seed}")
    order_id = f"#W{rng.randint(1000000, 9999999)}"
    city = rng.choice(list(CITIES))
    new = {"address1": f"{rng.randint(100, 999)} {rng.choice(STREETS)}", "city": city, "zip": f"{CITIES[city]}{rng.randint(10, 99)}"}
    pending = seed % 2 == 0
    ask = rng.choice(
        [
            "Please send order {o} to {address1}, {city} {zip}.",
            "I have moved: {o} should go to {address1}, {city} {zip}.",
            "New address for {o}: {address1}, {city} {zip}. Thank you.",
        ]
    )
    order = {"order_id": order_id, "status": "pending" if pending else rng.choice(["processed", "delivered"]), "address": {"address1": "1 Main Street", "city": "Miami", "zip": "33101"}}
    return {"request": ask.format(o=order_id, **new), "order": order, "new": new, "pending": pending, "known": False}


def act(name, given):
    if given["order_id"] != S["order"]["order_id"]:
        return "Error: order not found", True
    S["known"] = True
    if name == "get_order_details":
        return json.dumps(S["order"]), False
    if S["order"]["status"] != "pending":
        # Nothing is changed, so nothing is lost.
        return f"Error: order is {S['order']['status']}, its address cannot be modified", False
    S["log"].append({k: v for k, v in given.items() if k != "order_id"})
    S["order"]["address"] = S["log"][-1]
    return json.dumps(S["order"]), False


def judge():
    right = S["known"] and S["log"] == ([S["new"]] if S["pending"] else [])
    return [("knows_the_status", "action", S["known"], 1), ("address", "state", right, 2), ("told", "communicate", right and bool(S["last"].strip()), 1)]


def solve(s):
    look = ("get_order_details", {"order_id": s["order"]["order_id"]})
    if not s["pending"]:
        return [look, "I am sorry, this order can no longer be changed."]
    return [look, ("modify_pending_order_address", {"order_id": s["order"]["order_id"], **s["new"]}), "The address is changed."]


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
