"""Library: waive a late fee only within the time that the rules leave for it."""

import json
import random
from datetime import datetime, timedelta

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


NOW = datetime(2024, 3, 1, 10, 30)
POLICY = f"""You settle the late fees of a library. It is {NOW.strftime('%A, %d %B %Y, %H:%M')}.
A late fee may be waived if the book was brought back no more than 48 hours before now, the exact hour included, and the
reader asks for it. Otherwise the fee stays. Look at the fee before you waive it. Times are local, on the 24 hour clock."""

TOOLS = [
    _t("get_fee", "Show a late fee.", ["fee_no"], fee_no="integer"),
    _t("waive_fee", "Waive a late fee.", ["fee_no"], fee_no="integer"),
    _t("add_note", "Leave a note for the staff.", ["fee_no", "note"], fee_no="integer", note="string"),
]


def scene(seed):
    rng = random.Random(seed * 11 + 1)
    fee_no = rng.randint(100000, 999999)
    inside = seed % 2 == 0
    edge = rng.random() < 0.4
    if inside:
        minutes = rng.choice([2880, 2879, 2875, 2821]) if edge else rng.randint(30, 2800)
    else:
        minutes = rng.choice([2881, 2885, 2940, 3000]) if edge else rng.randint(3000, 9000)
    back = NOW - timedelta(minutes=minutes)
    form = rng.choice(["%Y-%m-%d %H:%M", "%d.%m.%Y %H:%M", "%d %b %Y, %H:%M"])
    fee = {"fee_no": fee_no, "amount": rng.choice(["1.50", "2.00", "4.50", "7.00"]), "brought_back": back.strftime(form), "title": rng.choice(["Kim", "Emma", "Dune", "Pnin"]), "branch": rng.choice(["north", "market", "harbour"])}
    text = rng.choice(["Please waive late fee {n}, I was ill.", "Fee {n}: could you let me off this once?", "I do not want to pay fee {n}."])
    return {"request": text.format(n=fee_no), "fee": fee, "inside": inside, "seen": False}


def act(name, given):
    if given["fee_no"] != S["fee"]["fee_no"]:
        return "Error: no such fee", True
    if name == "get_fee":
        S["seen"] = True
        return json.dumps(S["fee"]), False
    if name == "add_note":
        return "noted", False
    S["log"].append(S["seen"])
    return "waived", False


def judge():
    right = S["seen"] and S["log"] == ([True] if S["inside"] else [])
    return [("looked", "action", S["seen"] and all(S["log"]), 1), ("fee", "state", right, 2), ("answered", "communicate", right and bool(S["last"].strip()), 1)]


def solve(s):
    key = {"fee_no": s["fee"]["fee_no"]}
    return [("get_fee", key), ("waive_fee", key), "The fee is waived."] if s["inside"] else [("get_fee", key), "I am sorry, it is too late to waive this fee."]


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
