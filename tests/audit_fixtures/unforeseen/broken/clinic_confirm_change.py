"""Clinic: look again after a change, since a change may not take."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You move the appointments of a clinic. The booking system is old. After you have moved an appointment, look at it again,
and move it once more if the change did not take. Then tell the patient."""

TOOLS = [
    _t("get_appointment", "Show an appointment.", ["appointment_id"], appointment_id="string"),
    _t("move_appointment", "Move an appointment.", ["appointment_id", "date", "time"], appointment_id="string", date="string", time="string"),
]


def scene(seed):
    rng = random.Random(f"again {seed}")
    key = f"A{rng.randint(100000, 999999)}"
    new = {"date": f"2025-0{rng.randint(6, 9)}-{rng.randint(10, 28)}", "time": f"{rng.randint(8, 17):02}:{rng.choice(['00', '20', '40'])}"}
    record = {"appointment_id": key, "date": "2025-05-14", "time": "09:00", "doctor": rng.choice(["Dr Amsel", "Dr Brandt", "Dr Choi"]), "room": rng.randint(1, 20)}
    text = rng.choice(["Please move {k} to {date}, {time}.", "I cannot come to {k}. Does {date} at {time} work?", "{k} should be on {date} at {time}."])
    return {"request": text.format(k=key, **new), "record": record, "new": new, "stuck": seed % 2 == 0, "looks": 0}


def act(name, given):
    record = S["record"]
    if given["appointment_id"] != record["appointment_id"]:
        return "Error: no such appointment", True
    if name == "get_appointment":
        S["log"].append("look")
        return json.dumps(record), False
    S["log"].append("move")
    if S["stuck"] and S["log"].count("move") == 1:
        return json.dumps({"result": "not saved, please try again"}), False
    record["date"], record["time"] = given["date"], given["time"]
    return json.dumps({"result": "saved"}), False


def judge():
    moved = all(S["record"][k] == v for k, v in S["new"].items())
    times = S["log"].count("move") == (2 if S["stuck"] else 1)
    looked = "look" in S["log"] and moved
    return [
        ("moved", "state", moved, 1),
        ("not_more_than_needed", "action", moved and times, 1),
        ("looked", "action", looked, 1),
        ("told", "communicate", moved and times and looked and bool(S["last"].strip()), 1),
    ]


def solve(s):
    key = {"appointment_id": s["record"]["appointment_id"]}
    turn = [("move_appointment", {**key, **s["new"]}), ("get_appointment", key)]
    return [*(turn * (2 if s["stuck"] else 1)), "The appointment is moved."]


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
