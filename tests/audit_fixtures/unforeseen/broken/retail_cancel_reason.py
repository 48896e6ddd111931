"""Retail: cancel a pending order with the right reason, refuse one that is under way."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS = [
    _t("get_order_details", "Get the status and details of an order.", ["order_id"], order_id="string"),
    _t(
        "cancel_pending_order",
        "Cancel a pending order. The reason should be either 'no longer needed' or 'ordered by mistake'.",
        ["order_id", "reason"],
        order_id="string",
        reason={"type": "string", "enum": ["no longer needed", "ordered by mistake", "found cheaper", "changed mind"]},
    ),
    _t("transfer_to_human_agents", "Transfer the user to a human agent.", ["summary"], summary="string"),
]

POLICY = """# Retail agent policy
An order can only be cancelled if its status is 'pending', and you should check its status before taking the action.
The user needs to confirm the order id and the reason (either 'no longer needed' or 'ordered by mistake') for
cancellation. Other reasons are not acceptable: deny such a request. The user has confirmed what the message says."""

SAY = {
    "no longer needed": ["I do not need it any more", "there is no use for it now"],
    "ordered by mistake": ["I clicked on the wrong thing", "it was a mistake"],
    "found cheaper": ["I found it cheaper elsewhere", "another shop asks less"],
    "changed mind": ["I have changed my mind", "I do not like it after all"],
}


def scene(seed):
    rng = random.Random(seed * 13 + 5)
    order_id = f"#W{rng.randint(1000000, 9999999)}"
    reason = rng.choice(list(SAY))
    pending = seed % 2 == 0
    text = rng.choice(["Cancel {o}: {w}.", "I would like order {o} to be cancelled, {w}.", "Hello, {w}, so please cancel {o}."])
    return {
        "request": text.format(o=order_id, w=rng.choice(SAY[reason])),
        "order": {"order_id": order_id, "status": "pending" if pending else rng.choice(["processed", "delivered"]), "total": rng.randint(2000, 90000) / 100},
        "reason": reason,
        "pending": pending,
        "seen": False,
    }


def act(name, given):
    if name == "transfer_to_human_agents":
        S["log"].append((name, "", S["seen"]))
        return "Transfer successful", False
    if given["order_id"] != S["order"]["order_id"]:
        return "Error: order not found", True
    if name == "get_order_details":
        S["seen"] = True
        return json.dumps(S["order"]), False
    if S["order"]["status"] != "pending":
        S["log"].append((name, given["reason"], S["seen"]))
        return "Error: non-pending order cannot be cancelled", True
    S["log"].append((name, given["reason"], S["seen"]))
    S["order"].update(status="cancelled", cancel_reason=given["reason"])
    return json.dumps(S["order"]), False


def judge():
    looked = S["seen"] and all(seen for *_, seen in S["log"])
    want = [("cancel_pending_order", S["reason"])] if S["pending"] else []
    right = looked and [(a, b) for a, b, _ in S["log"]] == want
    return [("status_checked", "action", looked, 1), ("order", "state", right, 2), ("told", "communicate", right and bool(S["last"].strip()), 1)]


def solve(s):
    look = ("get_order_details", {"order_id": s["order"]["order_id"]})
    if not s["pending"]:
        return [look, "This order is no longer pending, so it cannot be cancelled."]
    return [look, ("cancel_pending_order", {"order_id": s["order"]["order_id"], "reason": s["reason"]}), "The order is cancelled."]


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
