"""Retail orders: change an order only for the customer who owns it."""

import copy
import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS = [
    _t("find_user_id_by_email", "Find user id by email.", ["email"], email="string"),
    _t("get_order_details", "Get the status and details of an order.", ["order_id"], order_id="string"),
    _t(
        "cancel_pending_order",
        "Cancel a pending order.",
        ["order_id", "reason"],
        order_id="string",
        reason={"type": "string", "enum": ["no longer needed", "ordered by mistake"]},
    ),
    _t("modify_pending_order_payment", "Modify the payment method of an order.", ["order_id", "payment_method_id"], order_id="string", payment_method_id="string"),
]

POLICY = """# Retail agent policy
Authenticate the user by email at the beginning of the conversation.
Deny any request that concerns an order of another user: compare the order's user_id with the authenticated user.
Only pending orders can be cancelled or modified; processed, delivered and cancelled orders cannot.
The user has already agreed to what the first message asks for. End with a short message that says what was done."""

NAMES = ["noah_brown", "mia_li", "yusuf_rossi", "ava_lopez", "chen_silva", "omar_khan", "lei_patel", "ivan_santos"]
ITEMS = ["Water Bottle", "Office Chair", "Desk Lamp", "Backpack", "Jigsaw Puzzle", "Hiking Boots", "Teapot"]


def scene(seed):
    rng = random.Random(seed)
    who = f"{rng.choice(NAMES)}_{rng.randint(1000, 9999)}"
    email = f"{who.replace('_', '.')}@example.com"
    order_id = f"#W{rng.randint(1000000, 9999999)}"
    fine = seed % 2 == 0
    card = f"credit_card_{rng.randint(1000000, 9999999)}"
    order = {
        "order_id": order_id,
        "user_id": who,
        "items": [{"name": n, "price": round(rng.uniform(20, 400), 2)} for n in rng.sample(ITEMS, rng.randint(1, 3))],
        "status": "pending" if fine else rng.choice(["processed", "delivered", "cancelled"]),
        "payment_history": [{"transaction_type": "payment", "payment_method_id": f"paypal_{rng.randint(1000000, 9999999)}"}],
    }
    if rng.random() < 0.5:
        wish = ("cancel_pending_order", {"order_id": order_id, "reason": rng.choice(["no longer needed", "ordered by mistake"])})
        words = f"please cancel my order {order_id}, it was {wish[1]['reason']}."
    else:
        wish = ("modify_pending_order_payment", {"order_id": order_id, "payment_method_id": card})
        words = f"please put order {order_id} on {card} instead."
    opening = rng.choice(["Hello, ", "Hi! ", "Good morning, ", "Hey there, "])
    return {
        "request": f"{opening}this is {email}, {words}",
        "email": email,
        "who": who,
        "order": order,
        "wish": wish,
        "fine": fine,
    }


def act(name, given):
    S["log"].append((name, dict(given)))
    if name == "find_user_id_by_email":
        return (S["who"], False) if given["email"] == S["email"] else ("Error: user not found", True)
    if given["order_id"] != S["order"]["order_id"]:
        return "Error: order not found", True
    if name == "get_order_details":
        return json.dumps(S["order"]), False
    if name == "cancel_pending_order":
        S["order"]["status"] = "cancelled"
        S["order"]["cancel_reason"] = given["reason"]
    else:
        S["order"]["payment_history"].append({"transaction_type": "payment", "payment_method_id": given["payment_method_id"]})
    return json.dumps(S["order"]), False


def judge():
    names = [n for n, _ in S["log"]]
    writes = [(n, a) for n, a in S["log"] if n in ("cancel_pending_order", "modify_pending_order_payment")]
    first = names.index(writes[0][0]) if writes else len(names)
    looked = "get_order_details" in names[:first]
    known = "find_user_id_by_email" in names[:first]
    right = writes == [S["wish"]] if S["fine"] else looked and not writes
    return [
        ("authenticated", "action", known, 1),
        ("owner_looked_up", "action", looked, 1),
        ("order_as_it_should_be", "state", right, 2),
        ("told", "communicate", right and known and bool(S["last"].strip()), 1),
    ]


def solve(s):
    steps = [
        ("find_user_id_by_email", {"email": s["email"]}),
        ("get_order_details", {"order_id": s["order"]["order_id"]}),
    ]
    if s["fine"]:
        return [*steps, s["wish"], "That is done for you."]
    return [*steps, "I am sorry, this order cannot be changed."]


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
