"""Library: work through a reader's whole list, loan by loan."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You help the readers of a library. A loan may be renewed unless its title is reserved by somebody else; a reserved one is
left as it is. Readers often send long lists: look at every loan, renew those that may be renewed, and name those that
could not be."""

TOOLS = [
    _t("get_loan", "Show a loan.", ["loan_id"], loan_id="string"),
    _t("get_reader", "Show a reader with the numbers of all loans.", ["reader_id"], reader_id="string"),
    _t("renew_loan", "Renew a loan.", ["loan_id"], loan_id="string"),
    _t("return_loan", "Take a book back.", ["loan_id"], loan_id="string"),
]


def scene(seed):
    rng = random.Random(f"list of {seed}")
    reader = f"R{rng.randint(10000, 99999)}"
    loans = {}
    while len(loans) < rng.choice([4, 5]):
        key = f"L{rng.randint(100000, 999999)}"
        loans[key] = {"loan_id": key, "reader_id": reader, "title_no": rng.randint(1000, 9999), "reserved_by": None if rng.random() < 0.5 else f"R{rng.randint(10000, 99999)}"}
    keys = list(loans)
    loans[keys[seed % 4]]["reserved_by"] = None
    loans[keys[(seed + 1) % 4]]["reserved_by"] = f"R{rng.randint(10000, 99999)}"
    named = seed % 2 == 0
    text = rng.choice(["I am {r}. Please renew {k}.", "{r} here: {k} for four more weeks, please.", "Reader {r} would like to keep {k}."])
    return {"request": text.format(r=reader, k=", ".join(keys[:-1]) + " and " + keys[-1] if named else "all my loans"), "reader": reader, "loans": loans, "named": named, "opened": set()}


def act(name, given):
    if name == "get_reader":
        if given["reader_id"] != S["reader"]:
            return "Error: no such reader", True
        return json.dumps({"reader_id": S["reader"], "loans": list(S["loans"])}), False
    loan = S["loans"].get(given["loan_id"])
    if loan is None:
        return "Error: no such loan", True
    if name == "get_loan":
        S["opened"].add(loan["loan_id"])
        return json.dumps(loan), False
    S["log"].append((name, loan["loan_id"], loan["loan_id"] in S["opened"]))
    return json.dumps({"loan_id": loan["loan_id"], "done": name}), False


def judge():
    rows = []
    for key, loan in S["loans"].items():
        mine = [(n, seen) for n, k, seen in S["log"] if k == key]
        want = [] if loan["reserved_by"] else [("renew_loan", True)]
        rows.append((f"loan_{key}", "state", key in S["opened"] and mine == want, 1))
    named = all((key in S["last"]) or not loan["reserved_by"] for key, loan in S["loans"].items())
    return [*rows, ("told", "communicate", all(r[2] for r in rows) and named, 2)]


def solve(s):
    keys = list(s["loans"])
    steps = [] if s["named"] else [("get_reader", {"reader_id": s["reader"]})]
    free = [k for k in keys if not s["loans"][k]["reserved_by"]]
    steps += [("get_loan", {"loan_id": k}) for k in keys] + [("renew_loan", {"loan_id": k}) for k in free]
    return [*steps, "Renewed, except for " + ", ".join(k for k in keys if k not in free) + ", which are reserved."]


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
