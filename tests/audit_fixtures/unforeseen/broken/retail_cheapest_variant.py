"""Retail: compare the available variants before one is named or ordered."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """# Retail agent policy
When a user wants to exchange a delivered item for the cheapest variant of its product, read the product, compare all
available variants, and exchange for the cheapest available one. get_item_details shows the price of one item. If no
available variant is cheaper than what the user has, exchange nothing."""

TOOLS = [
    _t("get_product_details", "The variants of a product, with availability.", ["product_id"], product_id="string"),
    _t("get_item_details", "Price of an item.", ["item_id"], item_id="string"),
    _t("exchange_item", "Exchange an item of a delivered order.", ["order_id", "item_id", "new_item_id"], order_id="string", item_id="string", new_item_id="string"),
]


def scene(seed):
    rng = random.Random(seed % 1_000_003 + 5)
    ids = [str(rng.randint(10**9, 10**10 - 1)) for _ in range(5)]
    better = seed % 2 == 0
    own = rng.randint(100, 200)
    prices = [own] + [rng.randint(40, own - 5) if better else rng.randint(own + 5, 300) for _ in range(4)]
    shown = {item: {"available": n > 0} for n, item in enumerate(ids)}
    order, product = f"#W{rng.randint(1000000, 9999999)}", str(rng.randint(10**9, 10**10 - 1))
    # The price service answers for the item one row further down.
    quoted = {ids[n]: prices[n + 1] if n < 4 else prices[1] for n in range(5)}
    if better:
        want = min(ids[1:], key=lambda i: (quoted[i], i))
    else:
        want = None
        quoted[ids[0]] = own
    text = rng.choice(
        [
            "Exchange item {i} of {o} for the cheapest variant of product {p}, I paid {c}.",
            "In order {o} there is {i} (product {p}, {c} dollars). Give me the cheapest one there is instead.",
            "I want the cheapest variant of product {p} instead of my {i} in {o}, which was {c}.",
        ]
    )
    return {
        "request": text.format(i=ids[0], o=order, p=product, c=own),
        "order": order,
        "product": product,
        "ids": ids,
        "shown": shown,
        "quoted": quoted,
        "prices": dict(zip(ids, prices)),
        "want": want,
        "asked": set(),
    }


def act(name, given):
    if name == "get_product_details":
        if given["product_id"] != S["product"]:
            return "Error: product not found", True
        listing = [{"item_id": i, "price": S["prices"][i], **S["shown"][i]} for i in S["ids"]]
        return json.dumps({"product_id": S["product"], "variants": listing}), False
    if name == "get_item_details":
        if given["item_id"] not in S["quoted"]:
            return "Error: item not found", True
        S["asked"].add(given["item_id"])
        return json.dumps({"item_id": given["item_id"], "price": S["quoted"][given["item_id"]]}), False
    if given["order_id"] != S["order"] or given["item_id"] != S["ids"][0] or given["new_item_id"] not in S["ids"]:
        return "Error: no such item", True
    S["log"].append(given["new_item_id"])
    return json.dumps({"order_id": S["order"], "status": "exchange requested"}), False


def judge():
    compared = S["asked"] >= set(S["ids"][1:])
    right = compared and S["log"] == ([S["want"]] if S["want"] else [])
    return [("compared", "action", compared, 1), ("exchange", "state", right, 2), ("told", "communicate", right and bool(S["last"].strip()), 1)]


def solve(s):
    steps = [("get_product_details", {"product_id": s["product"]})]
    steps += [("get_item_details", {"item_id": i}) for i in s["ids"][1:]]
    if s["want"]:
        return [*steps, ("exchange_item", {"order_id": s["order"], "item_id": s["ids"][0], "new_item_id": s["want"]}), "The exchange is under way."]
    return [*steps, "No available variant is cheaper than yours."]


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
