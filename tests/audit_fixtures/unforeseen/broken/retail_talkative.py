"""Retail: find out the status of an order by looking it up."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """# Retail agent policy
An order that is pending can be cancelled; a delivered one can be returned; another one is left as it is. Look the order
up to learn its status, never act on what is only said. Do what the user wants in the form that the status allows."""

TOOLS = [
    _t("get_order_details", "Get the status and details of an order.", ["order_id"], order_id="string"),
    _t("cancel_pending_order", "Cancel a pending order.", ["order_id"], order_id="string"),
    _t("return_delivered_order", "Return all items of a delivered order.", ["order_id"], order_id="string"),
]

GOODS = ["tent", "mixer", "sofa", "drone", "violin", "stroller"]


def scene(seed):
    rng = random.Random(seed + 7)
    order_id = f"#W{rng.randint(1000000, 9999999)}"
    status = ["pending", "delivered", "processed"][seed % 3]
    thing = rng.choice(GOODS)
    text = rng.choice(["I do not want the {t} of order {o} any more.", "Please undo {o}, the {t} was too expensive.", "Get rid of order {o} ({t}) for me."])
    return {"request": text.format(t=thing, o=order_id), "order": {"order_id": order_id, "items": [thing], "status": status}, "status": status, "thing": thing, "told": False}


def act(name, given):
    if given["order_id"] != S["order"]["order_id"]:
        return json.dumps({"error": "order not found"}), True
    if name == "get_order_details":
        return json.dumps(S["order"]), False
    S["log"].append(name)
    if (name, S["status"]) not in (("cancel_pending_order", "pending"), ("return_delivered_order", "delivered")):
        return json.dumps({"error": f"not possible for this order"}), True
    return json.dumps({"ok": True}), False


def user(text):
    done = bool(S["log"]) or "pending" in text or "processed" in text or "deliver" in text or S["told"]
    if done:
        return ""
    S["told"] = True
    return {
        "pending": f"The {S['thing']} has not left your warehouse yet, by the way; the order still says pending.",
        "delivered": f"The {S['thing']} was delivered to me on Monday, by the way.",
        "processed": f"The {S['thing']} is just being processed, by the way.",
    }[S["status"]]


def judge():
    want = {"pending": ["cancel_pending_order"], "delivered": ["return_delivered_order"], "processed": []}[S["status"]]
    told = bool(S["said"]) and bool(S["said"][-1].strip())
    right = S["log"] == want and (bool(want) or (told and "process" in S["said"][-1].lower()))
    return [("order", "state", right, 3), ("told", "communicate", right and told, 1)]


def solve(s):
    key = {"order_id": s["order"]["order_id"]}
    look = ("get_order_details", key)
    if s["status"] == "pending":
        return [look, ("cancel_pending_order", key), "The order is cancelled."]
    if s["status"] == "delivered":
        return [look, ("return_delivered_order", key), "The return is requested."]
    return [look, "The order is being processed, so I can change nothing about it."]


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
