"""Bank: pay back the part of a fee that the price list grants."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You serve the customers of a bank. When a customer asks for a fee back, read the fee and the customer's tariff. The
tariff "plus" gets 15 % of the fee back, "gold" 35 %, "basic" nothing. Amounts are rounded half up to the cent. Refund
exactly that amount with refund_fee; the amount is text such as "3.07". Refund nothing to a basic customer."""

TOOLS = [
    _t("get_fee", "Show a fee.", ["fee_id"], fee_id="string"),
    _t("get_tariff", "Show the tariff of a customer.", ["customer_id"], customer_id="string"),
    _t("refund_fee", "Pay an amount of a fee back.", ["fee_id", "amount"], fee_id="string", amount="string"),
]

SHARE = {"basic": 0, "plus": 15, "gold": 35}


def scene(seed):
    rng = random.Random(f"fee {seed}")
    fee_id, customer = f"F-{rng.randint(10000, 99999)}", f"K{rng.randint(10000, 99999)}"
    cents = rng.randint(310, 9900)
    tariff = rng.choice(["plus", "gold"]) if seed % 2 == 0 else "basic"
    back = cents * SHARE[tariff] // 100
    text = rng.choice(["Give me back the fee {f}! Customer {c}.", "I am {c}; I do not agree with fee {f}.", "Fee {f} on my account {c} is too high, what do I get back?"])
    return {
        "request": text.format(f=fee_id, c=customer),
        "fee": {"fee_id": fee_id, "customer_id": customer, "amount": f"{cents // 100}.{cents % 100:02}", "kind": rng.choice(["transfer", "card", "statement"])},
        "tariff": tariff,
        "back": f"{back // 100}.{back % 100:02}",
        "seen": set(),
    }


def act(name, given):
    if name == "get_tariff":
        if given["customer_id"] != S["fee"]["customer_id"]:
            return "Error: no such customer", True
        S["seen"].add("tariff")
        return json.dumps({"customer_id": given["customer_id"], "tariff": S["tariff"]}), False
    if given["fee_id"] != S["fee"]["fee_id"]:
        return "Error: no such fee", True
    if name == "get_fee":
        S["seen"].add("fee")
        return json.dumps(S["fee"]), False
    S["log"].append(given["amount"])
    return json.dumps({"refunded": given["amount"]}), False


def judge():
    right = "tariff" in S["seen"] and S["log"] == ([] if S["tariff"] == "basic" else [S["back"]])
    return [("tariff_read", "action", "tariff" in S["seen"], 1), ("refund", "state", right, 2), ("told", "communicate", right and bool(S["last"].strip()), 1)]


def solve(s):
    steps = [("get_tariff", {"customer_id": s["fee"]["customer_id"]}), ("get_fee", {"fee_id": s["fee"]["fee_id"]})]
    if s["tariff"] == "basic":
        return [*steps, "I am sorry, your tariff has no refund of fees."]
    return [*steps, ("refund_fee", {"fee_id": s["fee"]["fee_id"], "amount": s["back"]}), f"You get {s['back']} back."]


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
