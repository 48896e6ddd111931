"""Library: settle each loan of a letter as its own record says."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You work for a library. A loan may be renewed unless the record says that it is wanted by another reader; then ask for the
book with recall_loan. Look at each loan before you do anything with it, and settle all loans that a reader names."""

TOOLS = [
    _t("get_loan", "Show a loan.", ["loan"], loan="string"),
    _t("renew_loan", "Renew a loan.", ["loan"], loan="string"),
    _t("recall_loan", "Ask for a book back.", ["loan"], loan="string"),
]


def scene(seed):
    rng = random.Random(f"two loans {seed}")
    keys = [f"LN{n}" for n in rng.sample(range(1000, 10000), rng.choice([2, 3, 4]))]
    # Older loans are wanted by others first.
    cut = rng.randint(1, len(keys) - 1) if len(keys) > 2 else 1
    loans = {k: {"loan": k, "wanted": n >= cut, "shelf": rng.choice("ABCDEF") + str(rng.randint(1, 40)), "since": f"2025-0{rng.randint(1, 4)}-{rng.randint(10, 28)}"} for n, k in enumerate(keys)}
    first, last = " ".join(keys[:cut]), " ".join(keys[cut:])
    text = rng.choice(["Please renew {0}; also {1}.", "I would like to keep {0}, and {1} too.", "Renew {0} for me, then {1}."]).format(first, last)
    return {"request": text, "loans": loans, "seen": set()}


def act(name, given):
    loan = S["loans"].get(given["loan"])
    if loan is None:
        return "Error: no such loan", True
    if name == "get_loan":
        S["seen"].add(loan["loan"])
        return json.dumps(loan), False
    S["log"].append((name, loan["loan"], loan["loan"] in S["seen"]))
    return "ok", False


def judge():
    rows = []
    for key, loan in S["loans"].items():
        mine = [(n, seen) for n, k, seen in S["log"] if k == key]
        rows.append((f"settled_{key}", "state", mine == [("recall_loan" if loan["wanted"] else "renew_loan", True)], 2))
    return [*rows, ("told", "communicate", all(r[2] for r in rows) and bool(S["last"].strip()), 1)]


def solve(s):
    steps = []
    for key, loan in s["loans"].items():
        steps += [("get_loan", {"loan": key}), ("recall_loan" if loan["wanted"] else "renew_loan", {"loan": key})]
    return [*steps, "All of them are settled."]


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
