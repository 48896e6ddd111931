"""Telecom: check the contract's end before a suspension is lifted."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS = [
    _t("get_details_by_id", "Retrieves the details for a given ID.", ["id"], id="string"),
    _t("get_bills_for_customer", "The customer's bills, most recent first.", ["customer_id"], customer_id="string"),
    _t("resume_line", "Resumes a suspended line.", ["customer_id", "line_id"], customer_id="string", line_id="string"),
    _t("transfer_to_human_agents", "Transfer the user to a human agent.", ["summary"], summary="string"),
]

POLICY = """# Telecom Agent Policy
The current time is 2025-02-25 12:08:00 EST.
You are allowed to lift a suspension after the user has paid all overdue bills.
You are not allowed to lift it if the line's contract end date is in the past: transfer the user to a human agent."""


def scene(seed):
    rng = random.Random(f"resume-{seed}")
    customer, line = f"C{rng.randint(1000, 9999)}", f"L{rng.randint(1000, 9999)}"
    over = seed % 2 == 0
    ends = f"202{rng.choice('34')}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}" if over else f"202{rng.choice('67')}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    lead = rng.choice(["Hi, ", "Hello. ", "", "Good day, "])
    text = rng.choice(
        [
            "my phone {l} has no service (I am {c}). I suppose one first opens what is on file about {l}, sees until when I have signed, and switches it back on if that day is still ahead; if it is behind us, a colleague of yours takes over.",
            "{c} here, line {l} is dead. My neighbour had the same: they pulled up his line, compared the last day of his agreement with today's, and either turned it on again or handed him on to a person.",
            "line {l} of {c} is suspended. Surely it only takes a glance at the line's page: agreement still running, put it on; agreement run out, get me somebody in person.",
        ]
    )
    return {
        "request": lead + text.format(l=line, c=customer),
        "customer": customer,
        "line": line,
        "expired": over,
        "record": {"line_id": line, "status": "Suspended", "plan_id": "P1002", "contract_end_date": ends, "suspension_start_date": "2025-02-01"},
        "seen": False,
    }


def act(name, given):
    if name == "transfer_to_human_agents":
        S["log"].append((name, S["seen"]))
        return "Transfer successful", False
    if name == "get_details_by_id":
        if given["id"] == S["line"]:
            S["seen"] = True
            return json.dumps(S["record"]), False
        if given["id"] == S["customer"]:
            return json.dumps({"customer_id": S["customer"], "line_ids": [S["line"]]}), False
        return "Error: Unknown ID", True
    if given["customer_id"] != S["customer"]:
        return "Error: Customer not found", True
    if name == "get_bills_for_customer":
        return json.dumps([{"bill_id": "B" + S["customer"][1:], "status": "Paid", "total_due": 60.0}]), False
    if given["line_id"] != S["line"]:
        return "Error: Line not found", True
    S["log"].append((name, S["seen"]))
    S["record"]["status"] = "Active"
    return json.dumps(S["record"]), False


def judge():
    looked = S["seen"] and all(seen for _, seen in S["log"])
    right = looked and [n for n, _ in S["log"]] == ["transfer_to_human_agents" if S["expired"] else "resume_line"]
    return [("contract_read", "action", looked, 1), ("line", "state", right, 2), ("told", "communicate", right and S["last"] != "", 1)]


def solve(s):
    steps = [("get_details_by_id", {"id": s["line"]})]
    if s["expired"]:
        return [*steps, ("transfer_to_human_agents", {"summary": "contract end date is past"}), "YOU ARE BEING TRANSFERRED TO A HUMAN AGENT. PLEASE HOLD ON."]
    return [*steps, ("resume_line", {"customer_id": s["customer"], "line_id": s["line"]}), "Your line is active again; please reboot the phone."]


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
