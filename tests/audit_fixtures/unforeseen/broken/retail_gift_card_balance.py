"""Retail: check that a gift card covers the price difference of an exchange."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """# Retail agent policy
For a pending order, an item can be modified to an available item of the same product. If the user pays the price difference
with a gift card, it must have enough balance to cover the difference: look at the user's profile first. An item that is
not available cannot be chosen. If the modification is not possible, tell the user and change nothing."""

TOOLS = [
    _t("get_user_details", "Get the details of a user, payment methods included.", ["user_id"], user_id="string"),
    _t("get_order_details", "Get the status and details of an order.", ["order_id"], order_id="string"),
    _t("get_item_details", "Price and availability of an item.", ["item_id"], item_id="string"),
    _t(
        "modify_pending_order_items",
        "Modify items in a pending order.",
        ["order_id", "item_ids", "new_item_ids", "payment_method_id"],
        order_id="string",
        item_ids={"type": "array", "items": {"type": "string"}},
        new_item_ids={"type": "array", "items": {"type": "string"}},
        payment_method_id="string",
    ),
]


def scene(seed):
    rng = random.Random(seed * 97 + 13)
    number = lambda n: str(rng.randint(10 ** (n - 1), 10**n - 1))
    user = f"{rng.choice(['james', 'lucas', 'fatima', 'anya'])}_{rng.choice(['taylor', 'ahmed', 'kovacs'])}_{number(4)}"
    card, order, old, new = f"gift_card_{number(7)}", f"#W{number(7)}", number(10), number(10)
    price = rng.randint(30, 200)
    more = rng.randint(1, 40)
    possible = seed % 2 == 0
    text = rng.choice(["I am {u}. Change {a} in {o} to {b}, {c} pays the difference.", "{u}: in order {o}, {b} instead of {a}, please. Use {c}.", "Please swap {a} for {b} in {o} and charge {c}. ({u})"])
    return {
        "request": text.format(u=user, a=old, b=new, o=order, c=card),
        "user": {"user_id": user, "payment_methods": {card: {"source": "gift_card", "id": card, "balance": more + rng.randint(5, 80)}}, "orders": [order]},
        "order": {"order_id": order, "user_id": user, "status": "pending", "items": [{"item_id": old, "price": price}]},
        "items": {old: {"item_id": old, "price": price, "available": True}, new: {"item_id": new, "price": price + more, "available": possible}},
        "call": {"order_id": order, "item_ids": [old], "new_item_ids": [new], "payment_method_id": card},
        "possible": possible,
        "seen": set(),
    }


def act(name, given):
    if name == "get_user_details":
        if given["user_id"] != S["user"]["user_id"]:
            return "Error: user not found", True
        S["seen"].add("user")
        return json.dumps(S["user"]), False
    if name == "get_item_details":
        if given["item_id"] not in S["items"]:
            return "Error: item not found", True
        S["seen"].add("item " + given["item_id"])
        return json.dumps(S["items"][given["item_id"]]), False
    if given["order_id"] != S["order"]["order_id"]:
        return "Error: order not found", True
    if name == "get_order_details":
        return json.dumps(S["order"]), False
    S["log"].append((dict(given), "user" in S["seen"]))
    return json.dumps({**S["order"], "status": "pending (items modified)"}), False


def judge():
    read = "user" in S["seen"] and "item " + S["call"]["new_item_ids"][0] in S["seen"]
    right = read and S["log"] == ([(S["call"], True)] if S["possible"] else [])
    return [("profile_and_item_read", "action", read, 1), ("order", "state", right, 2), ("told", "communicate", right and bool(S["last"].strip()), 1)]


def solve(s):
    c = s["call"]
    steps = [("get_user_details", {"user_id": s["user"]["user_id"]}), ("get_item_details", {"item_id": c["item_ids"][0]}), ("get_item_details", {"item_id": c["new_item_ids"][0]})]
    return [*steps, ("modify_pending_order_items", c), "The order is changed."] if s["possible"] else [*steps, "I am sorry, that change is not possible."]


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
