"""Retail: look through all pages before an item is said to be missing."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """# Retail agent policy
Users ask for the order that holds a certain item. list_orders shows a user's orders page by page; read on until you have
found it or no page is left. If it is found and can be returned (delivered), request the return; if it is found but not
delivered, or is in no order, change nothing and tell the user. Never say that it is missing before all pages are read."""

TOOLS = [
    _t("list_orders", "A page of a user's orders. Pages are counted from 1.", ["user_id", "page"], user_id="string", page="integer"),
    _t("request_return", "Request the return of an item.", ["order_id", "item"], order_id="string", item="string"),
    _t("get_user", "Show a user.", ["user_id"], user_id="string"),
]

THINGS = ["bicycle pump", "wall clock", "rain coat", "desk fan", "chess set", "tea kettle", "door mat", "sun hat", "step ladder", "bread box", "bird feeder", "foot stool", "ice bucket"]


def scene(seed):
    rng = random.Random(seed + 2_718)
    user_id = f"U{rng.randint(10000, 99999)}"
    things = rng.sample(THINGS, 9)
    pages, size = rng.choice([2, 3]), rng.choice([2, 3])
    wanted = things[0]
    orders = [{"order_id": f"#W{rng.randint(1000000, 9999999)}", "status": rng.choice(["pending", "delivered"]), "items": [t]} for t in things[1 : 1 + pages * size - rng.randint(0, 1)]]
    case = ["return", "missing", "return", "pending"][seed % 4]
    if case != "missing":
        place = rng.randrange(len(orders))
        orders[place]["items"].insert(rng.randint(0, 1), wanted)
        orders[place]["status"] = "delivered" if case == "return" else "pending"
    listed = [orders[n : n + size] for n in range(0, len(orders), size)]
    text = rng.choice(["I want to return the {t} I ordered. I am {u}.", "{u}: please take back my {t}, I do not know the order.", "Somewhere in my orders there is a {t} ({u}). Return it, please."])
    return {"request": text.format(t=wanted, u=user_id), "user": user_id, "wanted": wanted, "pages": listed, "case": case, "read": set()}


def _place():
    for number, page in enumerate(S["pages"], start=1):
        for order in page:
            if S["wanted"] in order["items"]:
                return number, order
    return None, None


def act(name, given):
    if name == "request_return":
        if given["order_id"] not in [o["order_id"] for page in S["pages"] for o in page]:
            return "Error: order not found", True
        S["log"].append((given["order_id"], given["item"].strip().lower(), _place()[0] in S["read"]))
        return json.dumps({"status": "return requested"}), False
    if given["user_id"] != S["user"]:
        return "Error: user not found", True
    if name == "get_user":
        return json.dumps({"user_id": S["user"], "orders_in_total": sum(len(p) for p in S["pages"])}), False
    if not 1 <= given["page"] <= len(S["pages"]):
        return "Error: no such page", True
    S["read"].add(given["page"])
    return json.dumps({"page": given["page"], "more": given["page"] < len(S["pages"]), "orders": S["pages"][given["page"] - 1]}), False


def judge():
    number, order = _place()
    found = number in S["read"] if number else S["read"] == set(range(1, len(S["pages"]) + 1))
    found = found and all(seen for *_, seen in S["log"])
    want = [(order["order_id"], S["wanted"])] if S["case"] == "return" else []
    right = found and [one[:2] for one in S["log"]] == want
    return [("read_far_enough", "action", found, 2), ("order", "state", right, 2), ("answered", "communicate", right and bool(S["last"].strip()), 1)]


def solve(s):
    steps = []
    for number, page in enumerate(s["pages"], start=1):
        steps.append(("list_orders", {"user_id": s["user"], "page": number}))
        for order in page:
            if s["wanted"] in order["items"]:
                if s["case"] == "return":
                    return [*steps, ("request_return", {"order_id": order["order_id"], "item": s["wanted"]}), "The return is requested."]
                return [*steps, "That order has not been delivered yet, so it cannot be returned."]
    return [*steps, f"There is no {s['wanted']} in your orders."]


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
