"""School office: answer every part of a request."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

POLICY = """You run the office of a school. Parents often ask for two things at once. Do and answer every part of what they ask before you close: a part
that is left out counts as not served. Departure times stand in the bus plan. A contact number may be changed only if the caller's number is among the student's
guardians; otherwise leave it as it is and say so, and answer the rest all the same."""

TOOLS = [
    _t("get_student", "Show a student with the guardians' numbers.", ["student_id"], student_id="string"),
    _t("get_bus", "Show when a bus line leaves.", ["line"], line="integer"),
    _t("set_contact", "Set the contact number of a student.", ["student_id", "phone"], student_id="string", phone="string"),
]


def scene(seed):
    rng = random.Random(f"school|{seed}")
    numbers = [f"0{rng.randint(300, 899)} {rng.randint(10000, 99999)}" for _ in range(4)]
    caller, new, others = numbers[0], numbers[1], numbers[2:]
    allowed = seed % 2 == 1
    guardians = [caller, others[0]] if allowed else others
    rng.shuffle(guardians)
    student, line = f"S{rng.randint(1000, 9999)}", rng.randint(2, 48)
    text = rng.choice(
        [
            "This is {c}. Please make {n} the contact of {s}. And when does bus {l} leave?",
            "I call from {c}: two things. When does line {l} leave, and can you set the contact of {s} to {n}?",
            "Hello, {c} here. {s} needs a new contact number, {n}. I also need the departure of bus {l}.",
        ]
    )
    return {
        "request": text.format(c=caller, n=new, s=student, l=line),
        "student": {"student_id": student, "guardians": guardians, "contact": others[0], "class": f"{rng.randint(1, 9)}{rng.choice('abc')}"},
        "line": line,
        "leaves": f"{rng.randint(12, 16)}:{rng.choice(['05', '10', '25', '40', '55'])}",
        "new": new,
        "allowed": allowed,
        "looked": False,
    }


def act(name, given):
    if name == "get_bus":
        if given["line"] != S["line"]:
            return json.dumps({"error": "no such line today"}), True
        return json.dumps({"line": S["line"], "leaves": S["leaves"]}), False
    if given["student_id"] != S["student"]["student_id"]:
        return json.dumps({"error": "no such student"}), True
    if name == "get_student":
        S["looked"] = True
        return json.dumps(S["student"]), False
    S["log"].append(given["phone"])
    return json.dumps({"student_id": given["student_id"], "contact": given["phone"]}), False


def user(text):
    return ""


def judge():
    right = S["looked"] and S["log"] == ([S["new"]] if S["allowed"] else [])
    return [("looked", "action", S["looked"], 1), ("contact", "state", right, 2), ("answered", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    key = {"student_id": s["student"]["student_id"]}
    looks = [("get_student", key), ("get_bus", {"line": s["line"]})]
    if s["allowed"]:
        return [*looks, ("set_contact", {**key, "phone": s["new"]}), f"The contact is {s['new']} now, and bus {s['line']} leaves at {s['leaves']}."]
    return [*looks, f"Your number is not one of the guardians', so the contact stays as it is. Bus {s['line']} leaves at {s['leaves']}."]


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
