"""Retail: list the details and get a yes before an order is cancelled."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """# Retail agent policy
Before you cancel an order, tell the user its id and its total as the order shows it, and obtain an explicit yes. A user who
says no keeps the order. Only pending orders can be cancelled; otherwise tell the user without asking for a yes."""

TOOLS = [
    _t("get_order_details", "Get the status and details of an order.", ["order_id"], order_id="string"),
    _t("cancel_pending_order", "Cancel a pending order.", ["order_id", "reason"], order_id="string", reason={"type": "string", "enum": ["no longer needed", "ordered by mistake"]}),
]

YES = ["Yes, please.", "Yes, that is right, go ahead.", "Yes."]
NO = ["No, that is more than I thought; I will keep it.", "Oh, that one? No, leave it.", "No, do not cancel it."]


def scene(seed):
    rng = random.Random(f"consent|{seed}")
    order_id = f"#W{rng.randint(1000000, 9999999)}"
    case = ["yes", "no", "yes", "sent", "yes", "no"][seed % 6]
    total = f"{rng.randint(12, 900)}.{rng.randint(0, 99):02}"
    reason = rng.choice(["no longer needed", "ordered by mistake"])
    text = rng.choice(["Please cancel {o}, it is {r}.", "Order {o} was {r}, cancel it.", "I want to cancel {o}: {r}."]).format(o=order_id, r=reason)
    return {
        "request": text,
        "order": {"order_id": order_id, "status": "processed" if case == "sent" else "pending", "total": total, "items": rng.randint(1, 5)},
        "case": case,
        "reason": reason,
        "answer": rng.choice(YES if case == "yes" else NO),
        "read": False,
        "agreed": False,
        "asked": 0,
    }


def act(name, given):
    if given["order_id"] != S["order"]["order_id"]:
        return json.dumps({"error": "order not found"}), True
    if name == "get_order_details":
        S["read"] = True
        return json.dumps(S["order"]), False
    if S["order"]["status"] != "pending":
        S["log"].append((given["reason"], False))
        return json.dumps({"error": "non-pending order cannot be cancelled"}), True
    S["log"].append((given["reason"], S["agreed"]))
    S["order"]["status"] = "cancelled"
    return json.dumps({"order_id": given["order_id"], "status": "cancelled"}), False


def user(text):
    if S["log"] or S["case"] == "sent" or S["asked"] >= 2:
        return ""
    if S["asked"] and (S["agreed"] or S["case"] == "no"):
        return ""
    named = S["order"]["order_id"].strip("#") in text and S["order"]["total"] in text.replace(",", "")
    if not named:
        S["asked"] += 1
        return "Which order is that, and how much is it?" if S["asked"] == 1 else ""
    S["asked"] += 1
    S["agreed"] = S["case"] == "yes"
    S["listed"] = True
    return S["answer"]


def judge():
    read = S["read"]
    if S["case"] == "yes":
        listed = S.get("listed", False)
        right = S["log"] == [(S["reason"], True)]
    elif S["case"] == "no":
        listed = S.get("listed", False)
        right = listed and not S["log"]
    else:
        listed = read and bool(S["said"]) and not S["log"]
        right = listed
    done = read and listed and right and bool(S["said"]) and bool(S["said"][-1].strip())
    return [("read", "action", read, 1), ("details_listed", "communicate", listed, 1), ("order", "state", read and right, 2), ("ended_well", "communicate", done, 1)]


def solve(s):
    o = s["order"]
    look = ("get_order_details", {"order_id": o["order_id"]})
    if s["case"] == "sent":
        return [look, "This order has been processed and cannot be cancelled."]
    ask = f"That is order {o['order_id']} over {o['total']} dollars, reason: {s['reason']}. Shall I cancel it?"
    if s["case"] == "no":
        return [look, ask, "Then it stays as it is."]
    return [look, ask, ("cancel_pending_order", {"order_id": o["order_id"], "reason": s["reason"]}), "It is cancelled."]


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
