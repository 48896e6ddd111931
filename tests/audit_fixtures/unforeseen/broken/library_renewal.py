"""Library: renew a loan unless somebody has reserved the book."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You answer the mail of a city library. A loan may be renewed unless its title is reserved by another reader.
A reserved title is not renewed; leave the loan to a librarian with ask_librarian and tell the reader.
Readers may also bring a book back. Whether a title is reserved stands in the loan's record."""

TOOLS = [
    _t("get_loan", "Show a loan.", ["loan_id"], loan_id="string"),
    _t("renew_loan", "Renew a loan for four weeks.", ["loan_id"], loan_id="string"),
    _t("ask_librarian", "Leave a loan to a person.", ["loan_id"], loan_id="string"),
    _t("return_loan", "Take a book back.", ["loan_id"], loan_id="string"),
]

TITLES = ["The Leopard", "Dune", "Middlemarch", "Beloved", "Pnin", "Kim", "Emma", "Solaris", "Sula", "Zeno"]


def scene(seed):
    rng = random.Random(seed + 17)
    loans, wants, lines = {}, [], []
    for _ in range(rng.randint(1, 2)):
        reserved = (rng.random() < 0.5) if loans else seed % 2 == 1
        # Branches number their loans in blocks.
        block = rng.choice([3, 4, 7]) if reserved else rng.choice([1, 2, 5, 6, 8])
        loan_id = f"L{rng.randint(10, 99)}{block}{rng.randint(100, 999)}"
        loans[loan_id] = {
            "loan_id": loan_id,
            "title": rng.choice(TITLES),
            "due": f"2025-03-{rng.randint(10, 28)}",
            "renewals": rng.randint(0, 3),
            "reservation": "reserved" if reserved else "free",
        }
        wants.append(("ask_librarian" if reserved else "renew_loan", loan_id))
        lines.append(rng.choice(["Please renew {0}.", "Could I keep {0} a little longer?", "I need {0} for another month."]).format(loan_id))
    return {"request": rng.choice(["Hello. ", "Good evening. ", ""]) + " ".join(lines), "loans": loans, "wants": wants, "seen": set()}


def act(name, given):
    loan = S["loans"].get(given["loan_id"])
    if loan is None:
        return "Error: no such loan", True
    if name == "get_loan":
        S["seen"].add(given["loan_id"])
        return json.dumps(loan), False
    S["log"].append((name, given["loan_id"]))
    return json.dumps({"loan_id": loan["loan_id"], "result": "ok"}), False


def judge():
    rows = []
    for want in S["wants"]:
        mine = [one for one in S["log"] if one[1] == want[1]]
        rows.append((f"settled_{want[1]}", "state", mine == [want] and want[1] in S["seen"], 2))
        rows.append((f"looked_{want[1]}", "action", want[1] in S["seen"], 1))
    every = all(row[2] for row in rows)
    return [*rows, ("told", "communicate", every and bool(S["last"].strip()), 1)]


def solve(s):
    steps = []
    for name, loan_id in s["wants"]:
        steps += [("get_loan", {"loan_id": loan_id}), (name, {"loan_id": loan_id})]
    return [*steps, "I have taken care of it."]


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
