"""Telecom: look at a line's use before data is sold."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """# Telecom Agent Policy
You can refuel data for a line whose data usage has reached the plan's data limit. If the limit is not reached, data is not
the cause: do not sell any; either say so, or transfer the user to a human agent for technical help. Look at the usage
first; the tools offer several ways. The user has agreed to the price."""

TOOLS = [
    _t("get_data_usage", "Data usage, limit and refueling of a line.", ["line_id"], line_id="string"),
    _t("get_details_by_id", "Details of a line or plan.", ["id"], id="string"),
    _t("get_customer_by_phone", "A customer with the lines and their usage.", ["phone_number"], phone_number="string"),
    _t("refuel_data", "Adds data to a line.", ["line_id", "gb_amount"], line_id="string", gb_amount="number"),
    _t("transfer_to_human_agents", "Transfer the user to a human agent.", ["summary"], summary="string"),
]


def scene(seed):
    rng = random.Random(seed * 1009)
    line, plan, phone = f"L{rng.randint(1000, 9999)}", f"P{rng.randint(1000, 9999)}", f"555-{rng.randint(100, 999)}-{rng.randint(1000, 9999)}"
    limit = rng.choice([3.0, 5.0, 10.0, 15.0])
    out = seed % 2 == 0
    used = round(limit + rng.uniform(0.1, 2.0), 1) if out else round(limit * rng.uniform(0.2, 0.9), 1)
    gb = rng.choice([0.5, 1.0, 1.5, 2.0])
    text = rng.choice(
        [
            "Mobile data has stopped on {p} (line {l}). Sell me {g} GB.",
            "My line {l}, number {p}, is without internet: I want {g} GB more.",
            "Please add {g} GB to {l}, nothing loads on {p}.",
        ]
    )
    return {
        "request": text.format(p=phone, l=line, g=f"{gb:g}"),
        "line": {"line_id": line, "phone_number": phone, "plan_id": plan, "data_used_gb": used, "status": "Active"},
        "plan": {"plan_id": plan, "data_limit_gb": limit, "data_refueling_price_per_gb": 2.0},
        "gb": gb,
        "need": out,
        "known": set(),
    }


def act(name, given):
    line, plan = S["line"], S["plan"]
    if name == "transfer_to_human_agents":
        S["log"].append((name, None, len(S["known"]) == 2))
        return "Transfer successful", False
    if name == "get_customer_by_phone":
        if given["phone_number"] != line["phone_number"]:
            return "Error: Customer not found", True
        S["known"] |= {"used", "limit"}
        return json.dumps({"lines": [{**line, "data_limit_gb": plan["data_limit_gb"]}]}), False
    if name == "get_details_by_id":
        if given["id"] == line["line_id"]:
            S["known"].add("used")
            return json.dumps(line), False
        if given["id"] == plan["plan_id"]:
            S["known"].add("limit")
            return json.dumps(plan), False
        return "Error: Unknown ID", True
    if given["line_id"] != line["line_id"]:
        return "Error: Line not found", True
    if name == "get_data_usage":
        S["known"] |= {"used", "limit"}
        return json.dumps({"line_id": line["line_id"], "data_used_gb": line["data_used_gb"], "data_limit_gb": plan["data_limit_gb"]}), False
    S["log"].append((name, given["gb_amount"], len(S["known"]) == 2))
    return f"Added {given['gb_amount']} GB", False


def judge():
    known = len(S["known"]) == 2 and all(seen for *_, seen in S["log"])
    made = [(n, g) for n, g, _ in S["log"]]
    right = made == [("refuel_data", S["gb"])] if S["need"] else made in ([], [("transfer_to_human_agents", None)])
    return [("usage_and_limit_known", "action", known, 1), ("sale", "state", known and right, 2), ("answered", "communicate", known and right and bool(S["last"].strip()), 1)]


def solve(s):
    line = s["line"]["line_id"]
    if s["need"]:
        return [("get_data_usage", {"line_id": line}), ("refuel_data", {"line_id": line, "gb_amount": s["gb"]}), "The data is added."]
    return [("get_details_by_id", {"id": line}), ("get_details_by_id", {"id": s["plan"]["plan_id"]}), "You still have data, so more of it would not help."]


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
