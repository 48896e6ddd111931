"""Bank: read the payments of all cards before one is blocked or none."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You are the night line of a bank. When a customer reports a payment they did not make, read the payments of the customer's
cards until you have found it, and block the card that shows it. If no card shows it, block nothing and open a dispute.
A payment counts as found if shop and amount are the same."""

TOOLS = [
    _t("list_cards", "List a customer's cards.", ["customer_id"], customer_id="string"),
    _t("get_card_payments", "Show the latest payments of cards.", ["card_ids"], card_ids={"type": "array", "items": {"type": "string"}}),
    _t("block_cards", "Block cards.", ["card_ids", "replace"], card_ids={"type": "array", "items": {"type": "string"}}, replace="boolean"),
    _t("open_dispute", "Open a dispute about a payment.", ["customer_id"], customer_id="string"),
]

SHOPS = ["Rail Cafe", "Blue Pharmacy", "Oak Books", "Metro Fuel", "Nord Shoes", "Delta Toys", "Vino Vero", "Hat & Co"]


def scene(seed):
    rng = random.Random(f"{seed}/cards")
    customer = f"CU{rng.randint(100000, 999999)}"
    cards = [f"card-{n}" for n in rng.sample(range(1000, 10000), rng.choice([2, 3, 4]))]
    payments = {c: [{"shop": rng.choice(SHOPS[:-1]), "amount": rng.randint(5, 900)} for _ in range(rng.randint(1, 3))] for c in cards}
    bad = {"shop": rng.choice(SHOPS), "amount": rng.randint(100, 900)}
    for rows in payments.values():
        rows[:] = [one if one != bad else {**one, "amount": one["amount"] + 1} for one in rows]
    shown = seed % 2 == 0
    hit = rng.choice(cards)
    # In both cases one card shows something alike, at the same place in its list.
    alike = {**bad} if shown else {**bad, "amount": bad["amount"] + rng.choice([-7, 3, 11])}
    payments[hit].insert(rng.randint(0, len(payments[hit])), alike)
    text = rng.choice(["I never paid {a} at {s}! I am customer {c}.", "Customer {c}. There was a message about {a} at {s}, that was not me.", "Somebody has spent {a} at {s} on my account {c}."])
    return {"request": text.format(a=bad["amount"], s=bad["shop"], c=customer), "customer": customer, "payments": payments, "hit": hit if shown else None, "read": set()}


def act(name, given):
    if name in ("list_cards", "open_dispute"):
        if given["customer_id"] != S["customer"]:
            return "Error: no such customer", True
        if name == "list_cards":
            return json.dumps([{"card_id": c, "kind": "debit"} for c in S["payments"]]), False
        S["log"].append(("dispute", [], set(S["read"])))
        return "Dispute opened", False
    cards = given["card_ids"]
    if not cards or not all(isinstance(c, str) and c in S["payments"] for c in cards):
        return "Error: no such card", True
    if name == "get_card_payments":
        S["read"].update(cards)
        return json.dumps({c: S["payments"][c] for c in cards}), False
    S["log"].append(("block", sorted(set(cards)), set(S["read"])))
    return "Blocked", False


def judge():
    needed = {S["hit"]} if S["hit"] else set(S["payments"])
    read = needed <= S["read"] and all(needed <= seen for *_, seen in S["log"])
    want = [("block", [S["hit"]])] if S["hit"] else [("dispute", [])]
    right = read and [one[:2] for one in S["log"]] == want
    return [("read_far_enough", "action", read, 1), ("outcome", "state", right, 3), ("told", "communicate", right and bool(S["last"].strip()), 1)]


def solve(s):
    cards = list(s["payments"])
    steps = [("list_cards", {"customer_id": s["customer"]})]
    for card in cards:
        steps.append(("get_card_payments", {"card_ids": [card]}))
        if card == s["hit"]:
            return [*steps, ("block_cards", {"card_ids": [card], "replace": True}), "The card is blocked."]
    return [*steps, ("open_dispute", {"customer_id": s["customer"]}), "I have opened a dispute."]


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
