"""Retail: take a return only within its window, counted from the delivery."""

import json
import random
from datetime import date, timedelta

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TODAY = date(2024, 9, 18)
POLICY = f"""# Retail agent policy
Today is {TODAY.isoformat()}.
A delivered order can be returned within 30 days after the day of delivery, the thirtieth day included; small electronics
within 14 days. Read the order and count the days. Outside of the window deny the return and leave the order as it is.
The refund goes to the original payment method. The user has confirmed the details."""

TOOLS = [
    _t("get_order_details", "Get the status and details of an order.", ["order_id"], order_id="string"),
    _t("get_product_details", "Get the details of a product.", ["product_id"], product_id="string"),
    _t(
        "return_delivered_order_items",
        "Return some items of a delivered order.",
        ["order_id", "item_ids", "payment_method_id"],
        order_id="string",
        item_ids={"type": "array", "items": {"type": "string"}},
        payment_method_id="string",
    ),
]

WINDOW = {"electronics": 14, "household": 30, "garden": 30, "clothing": 30}


def scene(seed):
    rng = random.Random(seed)
    number = lambda n: str(rng.randint(10 ** (n - 1), 10**n - 1))
    kind = rng.choice(list(WINDOW))
    inside = seed % 2 == 0
    days = rng.randint(1, WINDOW[kind]) if inside else rng.randint(WINDOW[kind] + 1, WINDOW[kind] + 12)
    item = {"name": rng.choice(["Speaker", "Teapot", "Pruner", "Jacket"]), "item_id": number(10), "product_id": number(10), "price": rng.randint(15, 200) + 0.5}
    order = {
        "order_id": f"#W{number(7)}",
        "items": [item],
        "status": "delivered",
        "delivered_on": (TODAY - timedelta(days=days)).isoformat(),
        "fulfillments": [{"tracking_id": [number(12)], "item_ids": [item["item_id"]]}],
        "payment_history": [{"transaction_type": "payment", "amount": item["price"], "payment_method_id": f"credit_card_{number(7)}"}],
    }
    if inside:
        order["fulfillments"][0]["return_label"] = f"RL{number(8)}"
    text = rng.choice(["I want to return {i} from {o}.", "Please take back item {i} of order {o}.", "Item {i} in {o} is not what I need, can I send it back?"])
    return {"request": text.format(i=item["item_id"], o=order["order_id"]), "order": order, "item": item, "kind": kind, "inside": inside, "read": set()}


def act(name, given):
    order = S["order"]
    if name == "get_product_details":
        if given["product_id"] != S["item"]["product_id"]:
            return "Error: product not found", True
        return json.dumps({"product_id": given["product_id"], "name": S["item"]["name"], "category": S["kind"]}), False
    if given["order_id"] != order["order_id"]:
        return "Error: order not found", True
    if name == "get_order_details":
        S["read"].add("order")
        return json.dumps(order), False
    S["log"].append((given["item_ids"], given["payment_method_id"]))
    order["status"] = "return requested"
    return json.dumps(order), False


def judge():
    read = "order" in S["read"]
    want = [([S["item"]["item_id"]], S["order"]["payment_history"][0]["payment_method_id"])] if S["inside"] else []
    right = read and S["log"] == want
    return [("order_read", "action", read, 1), ("order", "state", right, 3), ("told", "communicate", right and bool(S["last"].strip()), 1)]


def solve(s):
    steps = [
        ("get_order_details", {"order_id": s["order"]["order_id"]}),
        ("get_product_details", {"product_id": s["item"]["product_id"]}),
    ]
    if not s["inside"]:
        return [*steps, "I am sorry, the window for returning this item has passed."]
    pay = s["order"]["payment_history"][0]["payment_method_id"]
    call = {"order_id": s["order"]["order_id"], "item_ids": [s["item"]["item_id"]], "payment_method_id": pay}
    return [*steps, ("return_delivered_order_items", call), "Your return has been requested."]


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
