"""Town office: look up today's date before a deadline is judged."""

import datetime
import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

POLICY = """You take objections to notices of the town. An objection is in time until the 30th day after the date of the notice, that day
included. Enter it with enter_objection if it is in time; otherwise use reject_objection. Never guess the date: get_today shows it."""

TOOLS = [
    _t("get_today", "Show today's date.", []),
    _t("get_notice", "Show a notice.", ["notice_id"], notice_id="string"),
    _t("enter_objection", "Enter an objection to a notice.", ["notice_id"], notice_id="string"),
    _t("reject_objection", "Reject an objection as too late.", ["notice_id"], notice_id="string"),
]

TODAY = datetime.date(2031, 3, 17)


def scene(seed):
    rng = random.Random(f"deadline|{seed}")
    late = seed % 2 == 0
    ago = rng.randint(31, 58) if late else rng.randint(2, 30)
    notice = f"N{rng.randint(100000, 999999)}"
    text = rng.choice(["I object to notice {n}.", "I do not agree with {n}. Please enter my objection.", "My objection is to {n}, about the fee."])
    return {
        "request": text.format(n=notice),
        "notice": {"notice_id": notice, "date": (TODAY - datetime.timedelta(days=ago)).isoformat(), "about": rng.choice(["waste fee", "dog tax", "parking"]), "amount": rng.randint(20, 300)},
        "late": late,
        "looked": False,
    }


def act(name, given):
    if name == "get_today":
        return json.dumps({"today": TODAY.isoformat()}), False
    if given["notice_id"] != S["notice"]["notice_id"]:
        return json.dumps({"error": "no such notice"}), True
    if name == "get_notice":
        S["looked"] = True
        return json.dumps(S["notice"]), False
    S["log"].append(name)
    return json.dumps({"notice_id": given["notice_id"], "status": "recorded"}), False


def user(text):
    return ""


def judge():
    want = "reject_objection" if S["late"] else "enter_objection"
    right = S["looked"] and S["log"] == [want]
    return [("looked", "action", S["looked"], 1), ("objection", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    key = {"notice_id": s["notice"]["notice_id"]}
    looks = [("get_today", {}), ("get_notice", key)]
    if s["late"]:
        return [*looks, ("reject_objection", key), "The 30 days are over, so the objection is too late."]
    return [*looks, ("enter_objection", key), "Your objection is in time and has been entered."]


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
