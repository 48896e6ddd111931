"""Library: look at a reader's fines before a loan is renewed."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You help the readers of a library. A loan may be renewed only for readers who owe no more than 10.00 in fines: look at
the reader's account before you renew. Above that, refuse. Questions about a loan you answer from its record."""

TOOLS = [
    _t("get_reader", "Show a reader's account.", ["reader_id"], reader_id="string"),
    _t("get_loan", "Show a loan.", ["loan_id"], loan_id="string"),
    _t("renew_loan", "Renew a loan.", ["loan_id"], loan_id="string"),
]

SHELVES = ["north", "south", "attic", "cellar", "gallery"]


def scene(seed):
    rng = random.Random(seed * 3 + 11)
    reader, loan = f"R{rng.randint(10000, 99999)}", f"L{rng.randint(10000, 99999)}"
    renew = seed % 2 == 0
    if renew:
        text = rng.choice(["I am {r}. Please renew {l}.", "Reader {r}: may I keep {l} for longer?", "Renew loan {l} for {r}."])
    else:
        text = rng.choice(["I am {r}. On which shelf does the book of {l} belong?", "Reader {r}: where does {l} go back to?"])
    return {
        "request": text.format(r=reader, l=loan),
        "reader": {"reader_id": reader, "fines": f"{rng.choice([0, 0, 0.5, 1.2, 2.4, 3.0, 4.75]):.2f}", "since": rng.randint(1990, 2024)},
        "loan": {"loan_id": loan, "reader_id": reader, "shelf": rng.choice(SHELVES), "due": f"2025-04-{rng.randint(10, 29)}"},
        "renew": renew,
        "seen": set(),
    }


def act(name, given):
    if name == "get_reader":
        if given["reader_id"] != S["reader"]["reader_id"]:
            return "Error: no such reader", True
        S["seen"].add("reader")
        return json.dumps(S["reader"]), False
    if given["loan_id"] != S["loan"]["loan_id"]:
        return "Error: no such loan", True
    if name == "get_loan":
        S["seen"].add("loan")
        return json.dumps(S["loan"]), False
    S["log"].append("reader" in S["seen"])
    return json.dumps({**S["loan"], "due": "2025-05-27"}), False


def judge():
    if S["renew"]:
        looked = "reader" in S["seen"] and all(S["log"])
        right = looked and len(S["log"]) == 1
    else:
        looked = "loan" in S["seen"]
        right = looked and not S["log"] and S["loan"]["shelf"] in S["last"].lower()
        right = right and not any(s in S["last"].lower() for s in SHELVES if s != S["loan"]["shelf"])
    return [("looked", "action", looked, 1), ("right", "state", right, 2), ("told", "communicate", right and bool(S["last"].strip()), 1)]


def solve(s):
    if s["renew"]:
        return [("get_reader", {"reader_id": s["reader"]["reader_id"]}), ("renew_loan", {"loan_id": s["loan"]["loan_id"]}), "Your loan is renewed."]
    return [("get_loan", {"loan_id": s["loan"]["loan_id"]}), f"It belongs to the shelf {s['loan']['shelf']}."]


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
