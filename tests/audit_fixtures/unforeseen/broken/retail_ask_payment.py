"""Retail: let the customer choose the payment method of an exchange."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """# Retail agent policy
Items of a delivered order can be exchanged. Before the exchange the user must choose the payment method for the price
difference: ask which one, do not choose for the user. The methods are in the user's profile. An order that is not
delivered cannot be exchanged: say so."""

TOOLS = [
    _t("get_order_details", "Get the status and details of an order.", ["order_id"], order_id="string"),
    _t("get_user_details", "Get the details of a user.", ["user_id"], user_id="string"),
    _t(
        "exchange_delivered_order_items",
        "Exchange items in a delivered order.",
        ["order_id", "item_ids", "new_item_ids", "payment_method_id"],
        order_id="string",
        item_ids={"type": "array", "items": {"type": "string"}},
        new_item_ids={"type": "array", "items": {"type": "string"}},
        payment_method_id="string",
    ),
]


def scene(seed):
    rng = random.Random(3 * seed + 1)
    digits = lambda n: "".join(rng.choice("0123456789") for _ in range(n))
    user_id = f"{rng.choice(['ella', 'finn', 'olga', 'raj', 'mei'])}_{rng.choice(['kim', 'ito', 'nguyen', 'moore'])}_{digits(4)}"
    methods = [f"{kind}_{digits(7)}" for kind in ("gift_card", "paypal", "credit_card")]
    rng.shuffle(methods)
    old, new, order_id = digits(10), digits(10), f"#W{digits(7)}"
    delivered = seed % 2 == 0
    thing = rng.choice(["lamp", "backpack", "kettle", "keyboard", "garden hose", "yoga mat"])
    ask = rng.choice(
        [
            "I am {u}. I would like to swap the {t} {o} in order {w} for {n}.",
            "Could you exchange {o} (a {t}) for {n}? The order is {w}, my id is {u}.",
            "{u} here, order {w}: item {o}, the {t}, should become {n}.",
        ]
    )
    return {
        "request": ask.format(u=user_id, t=thing, o=old, w=order_id, n=new),
        "user_id": user_id,
        "methods": methods,
        "choice": rng.choice(methods),
        "order_id": order_id,
        "delivered": delivered,
        "order": {
            "order_id": order_id,
            "user_id": user_id,
            "items": [{"name": thing, "item_id": old, "price": rng.randint(20, 90) + 0.99}],
            "status": "delivered" if delivered else rng.choice(["pending", "processed"]),
        },
        "args": {"order_id": order_id, "item_ids": [old], "new_item_ids": [new]},
        "chosen": False,
        "wrote": [],
        "reads": set(),
    }


def act(name, given):
    if name == "get_order_details":
        if given["order_id"] != S["order_id"]:
            return json.dumps({"error": "order not found"}), True
        S["reads"].add("order")
        return json.dumps(S["order"]), False
    if name == "get_user_details":
        if given["user_id"] != S["user_id"]:
            return json.dumps({"error": "user not found"}), True
        return json.dumps({"user_id": S["user_id"], "payment_methods": S["methods"]}), False
    if given["order_id"] != S["order_id"] or given["item_ids"] != S["args"]["item_ids"]:
        return json.dumps({"error": "no such item"}), True
    if given["payment_method_id"] not in S["methods"]:
        return json.dumps({"error": "payment method not found"}), True
    S["wrote"].append({"given": dict(given), "chosen": S["chosen"], "read": "order" in S["reads"]})
    S["order"]["status"] = "exchange requested"
    return json.dumps(S["order"]), False


def user(text):
    if "?" in text and not S["chosen"]:
        S["chosen"] = True
        return f"Please use {S['choice']}." if S["methods"][0] in text or "pa" in text.lower() else "Yes, go on please."
    return ""


def judge():
    read = "order" in S["reads"] and all(w["read"] for w in S["wrote"])
    if S["delivered"]:
        asked = len(S["wrote"]) == 1 and S["wrote"][0]["chosen"]
        done = len(S["wrote"]) == 1 and S["wrote"][0]["given"]["new_item_ids"] == S["args"]["new_item_ids"]
    else:
        asked = done = read and not S["wrote"]
    return [
        ("order_read", "action", read, 1),
        ("user_asked_for_the_method", "communicate", asked, 2),
        ("exchange", "state", done, 1),
        ("answered", "communicate", done and asked and bool(S["said"]), 1),
    ]


def solve(s):
    steps = [("get_order_details", {"order_id": s["order_id"]})]
    if not s["delivered"]:
        return [*steps, "I am sorry, only delivered orders can be exchanged."]
    return [
        *steps,
        ("get_user_details", {"user_id": s["user_id"]}),
        f"Which payment method shall I use: {', '.join(s['methods'])}?",
        ("exchange_delivered_order_items", {**s["args"], "payment_method_id": s["choice"]}),
        "The exchange is requested.",
    ]


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
    S.update(log=[], bad=0, turns=0, said=[], over=False)
    return [{"role": "system", "content": POLICY}, {"role": "user", "content": S["request"]}]


def step(message):
    S["turns"] += 1
    calls = message.get("tool_calls") or []
    messages = []
    for call in calls:
        given = call.get("arguments") or {}
        mistake = _mistake(call["name"], given)
        content, failed = (json.dumps({"error": mistake}), True) if mistake else act(call["name"], given)
        S["bad"] += bool(failed)
        one = {"role": "tool", "tool_call_id": call["id"], "tool_name": call["name"], "content": content}
        messages.append({**one, "is_error": True} if failed else one)
    if not calls:
        text = message.get("content") or ""
        S["said"].append(text)
        answer = user(text)
        if answer:
            messages.append({"role": "user", "content": answer})
        else:
            S["over"] = True
    return {"messages": messages, "done": S["over"], "truncated": not S["over"] and S["turns"] >= 18}


def verdict():
    rows = judge()
    rows.append(("closed", "protocol", S["over"], 0))
    success = all(passed for _, _, passed, _ in rows)
    weight = sum(w for *_, w in rows)
    share = sum(w for _, _, passed, w in rows if passed) / weight
    reward = max(0.5 * share + 0.5 * success - 0.05 * S["bad"], 0.5 * success, 0.0)
    checks = []
    for name, kind, passed, _ in rows:
        detail = "as it should be" if passed else "not so"
        checks.append(
            {"name": name, "kind": kind, "passed": bool(passed), "score": None, "gates": True, "detail": detail}
        )
    return {"reward": min(1.0, float(reward)), "success": bool(success), "checks": checks}


def oracle(seed):
    turns = []
    for one in solve(scene(int(seed))):
        if isinstance(one, str):
            turns.append({"role": "assistant", "content": one, "tool_calls": []})
            continue
        name, given = one
        turns.append(
            {"role": "assistant", "content": None, "tool_calls": [{"id": f"t{len(turns)}", "name": name, "arguments": given}]}
        )
    return turns
