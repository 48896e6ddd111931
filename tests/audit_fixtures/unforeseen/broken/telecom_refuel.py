"""Telecom: refuel data only within the limit that the line still has."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS = [
    _t("get_data_usage", "Current billing cycle data usage of a line.", ["customer_id", "line_id"], customer_id="string", line_id="string"),
    _t("refuel_data", "Refuels data for a line.", ["customer_id", "line_id", "gb_amount"], customer_id="string", line_id="string", gb_amount="number"),
    _t("get_details_by_id", "Details of a customer or line.", ["id"], id="string"),
]

POLICY = """# Telecom Agent Policy
You can add data to a line by refueling it. The maximum amount of data that can be refueled on a line in one cycle is
2 GB, what was refueled before included. Check the line's data usage first; if the wish would go beyond the maximum, do
not refuel at all and tell the user. The user has confirmed the price."""


def scene(seed):
    rng = random.Random(seed ^ 0x5EED)
    customer, line = f"C{rng.randint(1000, 9999)}", f"L{rng.randint(1000, 9999)}"
    wish = rng.choice([0.5, 1.0, 1.5])
    fits = seed % 2 == 0
    before = rng.choice([x for x in (0.0, 0.5, 1.0, 1.5, 2.0) if (x + wish <= 2.0) == fits])
    amount = f"{wish:.1f}" if fits else f"{wish:g}" if wish != int(wish) else f"{int(wish)}"
    if fits and wish != 1.0:
        amount = f"{wish:.2f}"
    text = rng.choice(
        [
            "My data has run out on line {l} (customer {c}), please add {a} GB.",
            "Customer {c}: I would like {a} GB more for {l}.",
            "Please refuel {a} GB on line {l}. My customer id is {c}.",
        ]
    )
    return {
        "request": text.format(l=line, c=customer, a=amount),
        "customer": customer,
        "line": line,
        "wish": wish,
        "fits": fits,
        "usage": {
            "line_id": line,
            "data_used_gb": round(rng.uniform(4, 12), 1),
            "data_limit_gb": rng.choice([5.0, 10.0, 15.0]),
            "data_refueling_gb": before,
            "cycle_end_date": "2025-02-28",
        },
        "looked": False,
    }


def act(name, given):
    if name == "get_details_by_id":
        if given["id"] == S["line"]:
            return json.dumps({"line_id": S["line"], "status": "Active", "plan_id": "P1002"}), False
        if given["id"] == S["customer"]:
            return json.dumps({"customer_id": S["customer"], "line_ids": [S["line"]], "account_status": "Active"}), False
        return "Error: unknown id", True
    if (given["customer_id"], given["line_id"]) != (S["customer"], S["line"]):
        return "Error: line not found", True
    if name == "get_data_usage":
        S["looked"] = True
        return json.dumps(S["usage"]), False
    S["log"].append((given["gb_amount"], S["looked"]))
    S["usage"]["data_refueling_gb"] += given["gb_amount"]
    return json.dumps({"message": f"Refueled {given['gb_amount']} GB"}), False


def judge():
    looked = S["looked"] and all(seen for _, seen in S["log"])
    right = [g for g, _ in S["log"]] == ([S["wish"]] if S["fits"] else []) and looked
    return [("usage_checked", "action", looked, 1), ("refueled", "state", right, 2), ("told", "communicate", right and S["last"].strip() != "", 1)]


def solve(s):
    key = {"customer_id": s["customer"], "line_id": s["line"]}
    if s["fits"]:
        return [("get_data_usage", key), ("refuel_data", {**key, "gb_amount": s["wish"]}), "The data has been added."]
    return [("get_data_usage", key), "I am sorry, that would be more than 2 GB in this cycle."]


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
