"""Bank: block the card that shows a payment the customer did not make."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You are the night line of a bank. When a customer reports a payment they did not make, read the payments of all of
the customer's cards, and block the card that shows it. If no card shows it, block nothing and open a dispute."""

TOOLS = [
    _t("list_cards", "List a customer's cards.", ["customer_id"], customer_id="string"),
    _t("get_card_payments", "Show the latest payments of a card.", ["card_id"], card_id="string"),
    _t("block_card", "Block a card.", ["card_id"], card_id="string"),
    _t("open_dispute", "Open a dispute about a payment.", ["customer_id"], customer_id="string"),
]

SHOPS = ["Rail Cafe", "Blue Pharmacy", "Oak Books", "Metro Fuel", "Nord Shoes", "Delta Toys", "Vino Vero", "Hat & Co"]


def scene(seed):
    rng = random.Random(f"{seed}/bank")
    customer = f"CU{rng.randint(100000, 999999)}"
    cards = [f"card-{rng.randint(1000, 9999)}" for _ in range(3)]
    while len(set(cards)) < 3:
        cards = [f"card-{rng.randint(1000, 9999)}" for _ in range(3)]
    shops = rng.sample(SHOPS, 7)
    payments = {c: [{"shop": s, "amount": rng.randint(5, 200)} for s in shops[2 * n : 2 * n + 2]] for n, c in enumerate(cards)}
    shown = seed % 2 == 0
    bad = {"shop": shops[6], "amount": rng.randint(210, 900)}
    if shown:
        payments[cards[0]].append(bad)
        rng.shuffle(payments[cards[0]])
    order = cards
    text = rng.choice(
        [
            "I never paid {a} at {s}! I am customer {c}.",
            "Customer {c}. There was a message about {a} at {s}, that was not me.",
            "Somebody has spent {a} at {s} on my account {c}.",
        ]
    ).format(a=bad["amount"], s=bad["shop"], c=customer)
    return {
        "request": text,
        "customer": customer,
        "order": order,
        "payments": payments,
        "want": ("block_card", order[0]) if shown else ("open_dispute", customer),
    }


def act(name, given):
    key = given.get("card_id", given.get("customer_id"))
    if name in ("get_card_payments", "block_card") and key not in S["payments"]:
        return "Error: no such card", True
    if name in ("list_cards", "open_dispute") and key != S["customer"]:
        return "Error: no such customer", True
    if name == "list_cards":
        return json.dumps([{"card_id": c, "kind": "debit"} for c in S["order"]]), False
    if name == "get_card_payments":
        return json.dumps(S["payments"][key]), False
    S["log"].append((name, key))
    return "done", False


def judge():
    right = S["log"] == [S["want"]]
    return [("outcome", "state", right, 3), ("told", "communicate", right and bool(S["last"].strip()), 1)]


def solve(s):
    steps = [("list_cards", {"customer_id": s["customer"]})]
    for card in s["order"]:
        steps.append(("get_card_payments", {"card_id": card}))
        if s["want"] == ("block_card", card):
            break
    name, key = s["want"]
    steps.append((name, {"card_id" if name == "block_card" else "customer_id": key}))
    return [*steps, "I have seen to it."]


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
