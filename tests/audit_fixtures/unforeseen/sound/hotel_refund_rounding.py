"""Hotel: pay back the share of a booking that the house rules grant."""

import json
import random
from decimal import ROUND_HALF_UP, Decimal

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You settle cancelled bookings of a hotel. The refund depends on how many days before arrival the guest cancelled: 14 days or
more 85 %, 7 to 13 days 37.5 %, fewer than 7 days nothing. Amounts are rounded half up to the cent. Read the booking, then
refund exactly the amount with refund, or decline where nothing is due."""

TOOLS = [
    _t("get_booking", "Show a booking.", ["booking"], booking="string"),
    _t("refund", "Pay an amount back.", ["booking", "amount"], booking="string", amount="string"),
    _t("calculate", "Multiply two decimal numbers.", ["a", "b"], a="string", b="string"),
]


def scene(seed):
    rng = random.Random(seed + 31337)
    key = f"{rng.choice(['N', 'S', 'E', 'W'])}-{rng.randint(10000, 99999)}"
    days = rng.choice([14, 15, 20, 33, 7, 8, 13, 10]) if seed % 2 == 0 else rng.choice([0, 1, 2, 5, 6])
    total = Decimal(rng.randint(5001, 180001)) / 100
    share = Decimal("0.85") if days >= 14 else Decimal("0.375") if days >= 7 else Decimal(0)
    due = (total * share).quantize(Decimal("0.01"), rounding=ROUND_HALF_UP)
    text = rng.choice(["I have cancelled {k}. What do I get back?", "Booking {k} is cancelled, please refund me.", "Please send my money back for {k}."])
    booking = {"booking": key, "total": f"{total:.2f}", "cancelled_days_before_arrival": days, "nights": rng.randint(1, 8), "city_tax": f"{rng.randint(1, 9)}.20"}
    return {"request": text.format(k=key), "booking": booking, "due": due, "read": False}


def act(name, given):
    if name == "calculate":
        try:
            return str(Decimal(given["a"]) * Decimal(given["b"])), False
        except ArithmeticError:
            return "Error: not a number", True
    if given["booking"] != S["booking"]["booking"]:
        return "Error: no such booking", True
    if name == "get_booking":
        S["read"] = True
        return json.dumps(S["booking"]), False
    try:
        amount = Decimal(given["amount"].strip().lstrip("$€").replace(",", ""))
    except ArithmeticError:
        return "Error: amount is not a number", True
    if not amount.is_finite() or amount <= 0:
        return "Error: amount must be positive", True
    S["log"].append((amount, S["read"]))
    return json.dumps({"refunded": str(amount)}), False


def judge():
    read = S["read"] and all(seen for _, seen in S["log"])
    right = read and [a for a, _ in S["log"]] == ([S["due"]] if S["due"] else [])
    return [("booking_read", "action", read, 1), ("refund", "state", right, 3), ("answered", "communicate", right and bool(S["last"].strip()), 1)]


def solve(s):
    look = ("get_booking", {"booking": s["booking"]["booking"]})
    if s["due"]:
        return [look, ("refund", {"booking": s["booking"]["booking"], "amount": str(s["due"])}), f"{s['due']} is on its way to you."]
    return [look, "I am sorry, nothing is refunded for so late a cancellation."]


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
