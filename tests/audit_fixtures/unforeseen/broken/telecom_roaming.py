"""Telecom: look at the line before roaming is enabled."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """# Telecom Agent Policy
If a user travels abroad, check whether the line is roaming enabled. If it is not, enable it at no cost. If it already
is, change nothing and tell the user to restart the phone. Identify the customer first."""

TOOLS = [
    _t("get_customer_by_phone", "Finds a customer by phone number.", ["phone_number"], phone_number="string"),
    _t("get_details_by_id", "Details of a customer, line, plan or device.", ["id"], id="string"),
    _t("enable_roaming", "Enables international roaming on a line.", ["customer_id", "line_id"], customer_id="string", line_id="string"),
    _t("get_data_usage", "Data usage of a line.", ["customer_id", "line_id"], customer_id="string", line_id="string"),
]

PLACES = ["France", "Peru", "Japan", "Kenya", "Norway", "Turkey", "Chile"]


def scene(seed):
    rng = random.Random(seed - 1)
    phone = f"555-{rng.randint(100, 999)}-{rng.randint(1000, 9999)}"
    customer, line, device = f"C{rng.randint(1000, 9999)}", f"L{rng.randint(1000, 9999)}", f"D{rng.randint(1000, 9999)}"
    off = seed % 2 == 0
    objects = {
        line: {"line_id": line, "phone_number": phone, "status": "Active", "device_id": device, "plan_id": "P1001", "roaming_enabled": not off},
        customer: {"customer_id": customer, "full_name": rng.choice(["Ana Ruiz", "Bo Chen", "Cy Young"]), "line_ids": [line]},
        device: {"device_id": device, "model": rng.choice(["Smartphone X", "Phone 8", "Tablet Z"])},
        "P1001": {"plan_id": "P1001", "name": "Basic Plan", "data_limit_gb": 5.0},
    }
    text = rng.choice(["I am in {c} and {p} has no data.", "No internet on {p} here in {c}!", "My number is {p}. Since I landed in {c}, nothing loads."])
    return {
        "request": text.format(c=rng.choice(PLACES), p=phone),
        "phone": phone,
        "customer": customer,
        "line": line,
        "objects": objects,
        "off": off,
        "trail": [],
    }


def act(name, given):
    S["trail"].append((name, given.get("id", "")))
    if name == "get_customer_by_phone":
        if given["phone_number"] != S["phone"]:
            return "Error: Customer not found", True
        return json.dumps(S["objects"][S["customer"]]), False
    if name == "get_details_by_id":
        found = S["objects"].get(given["id"])
        return (json.dumps(found), False) if found else ("Error: Unknown ID", True)
    if (given["customer_id"], given["line_id"]) != (S["customer"], S["line"]):
        return "Error: Line not found", True
    if name == "get_data_usage":
        return json.dumps({"line_id": S["line"], "data_used_gb": 2.2, "data_limit_gb": 5.0}), False
    S["objects"][S["line"]]["roaming_enabled"] = True
    return "Roaming enabled successfully", False


def judge():
    want = [("get_customer_by_phone", ""), ("get_details_by_id", S["line"])]
    looked = S["trail"][:2] == want
    right = S["trail"] == [*want, ("enable_roaming", "")] if S["off"] else S["trail"] == want
    return [("looked", "action", looked, 1), ("roaming", "state", right, 2), ("told", "communicate", right and bool(S["last"].strip()), 1)]


def solve(s):
    steps = [("get_customer_by_phone", {"phone_number": s["phone"]}), ("get_details_by_id", {"id": s["line"]})]
    if s["off"]:
        return [*steps, ("enable_roaming", {"customer_id": s["customer"], "line_id": s["line"]}), "Roaming is on now."]
    return [*steps, "Roaming is on already; please restart the phone."]


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
