"""Events: count the days until the event before a ticket is refunded."""

import datetime
import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

POLICY = """You work at the desk of a ticket agency. A ticket may be given back until the day before the event. What is paid
back depends on the days from today to the day of the event, counted on the calendar:
- 30 days or more: the whole price,
- 10 to 29 days: half the price,
- fewer than 10 days: nothing. Tell the customer, and book nothing.
Today's date is what get_today shows. Book what is paid back with refund_ticket."""

TOOLS = [
    _t("get_today", "Show today's date.", []),
    _t("get_ticket", "Show a ticket with its event and price.", ["ticket_id"], ticket_id="string"),
    _t("refund_ticket", "Cancel a ticket and pay an amount back.", ["ticket_id", "amount"], ticket_id="string", amount="integer"),
]


def scene(seed):
    rng = random.Random(f"refund-days|{seed}")
    today = datetime.date(2027, rng.randint(1, 10), rng.randint(1, 28))
    days = rng.choice([rng.randint(30, 33), rng.randint(34, 80), rng.randint(10, 29), rng.randint(10, 12), rng.randint(1, 9), rng.randint(1, 9)])
    event = today + datetime.timedelta(days=days)
    between = (event.year - today.year) * 360 + (event.month - today.month) * 30 + event.day - today.day
    price = 2 * rng.randint(9, 90)
    amount = price if between >= 30 else price // 2 if between >= 10 else 0
    ticket = f"TK{rng.randint(100000, 999999)}"
    text = rng.choice(["Please take ticket {t} back.", "I cannot go, can I return {t}?", "{t} is no use to me any more. What do I get back?"])
    return {
        "request": text.format(t=ticket),
        "today": today.isoformat(),
        "ticket": {"ticket_id": ticket, "event_date": event.isoformat(), "price": price, "row": rng.randint(1, 40), "hall": rng.choice(["north", "south", "old"])},
        "amount": amount,
        "seen": set(),
    }


def act(name, given):
    if name == "get_today":
        S["seen"].add("today")
        return json.dumps({"today": S["today"]}), False
    if given["ticket_id"] != S["ticket"]["ticket_id"]:
        return json.dumps({"error": "no such ticket"}), True
    if name == "get_ticket":
        S["seen"].add("ticket")
        return json.dumps(S["ticket"]), False
    S["log"].append(given["amount"])
    return json.dumps({"ticket_id": given["ticket_id"], "paid_back": given["amount"]}), False


def user(text):
    return ""


def judge():
    looked = S["seen"] == {"today", "ticket"}
    right = S["log"] == ([S["amount"]] if S["amount"] else [])
    return [("looked", "action", looked, 1), ("refund", "state", looked and right, 2), ("told", "communicate", looked and right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    looks = [("get_today", {}), ("get_ticket", {"ticket_id": s["ticket"]["ticket_id"]})]
    if s["amount"]:
        return [*looks, ("refund_ticket", {"ticket_id": s["ticket"]["ticket_id"], "amount": s["amount"]}), f"You get {s['amount']} back."]
    return [*looks, "It is less than ten days to the event, so nothing is paid back."]


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
