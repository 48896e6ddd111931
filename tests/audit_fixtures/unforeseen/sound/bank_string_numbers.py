"""Bank: make a standing order only where the balance covers it."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You serve a savings bank. A payment is made only if the balance together with the overdraft limit covers it, that is, if
it is at most the sum of both. Otherwise do not make it and tell the customer. Look at the account first. Amounts are
texts with a comma for thousands and a point for cents."""

TOOLS = [
    _t("show_account", "Balance and overdraft limit of an account.", ["account"], account="string"),
    _t("make_payment", "Make a payment.", ["account", "payee", "amount"], account="string", payee="string", amount="string"),
    _t("show_fees", "The price list.", []),
]

PAYEES = ["City Waterworks", "Lindner Dental", "Greenfield Rent", "North Energy", "Harbour School", "Amber Insurance"]


def money(cents):
    sign, cents = ("-" if cents < 0 else ""), abs(cents)
    return f"{sign}{cents // 100:,}.{cents % 100:02}"


def cents(text):
    digits = text.replace(",", "").replace(" ", "").strip("$€")
    whole, _, rest = digits.partition(".")
    if not whole.isdecimal() or (rest and not rest.isdecimal()) or len(rest) > 2:
        return None
    return int(whole) * 100 + int((rest + "00")[:2])


def scene(seed):
    rng = random.Random(f"covers-{seed}")
    account = f"{rng.randint(10, 99)} {rng.randint(1000, 9999)} {rng.randint(1000, 9999)}"
    limit = rng.choice([0, 20000, 50000, 100000])
    balance = rng.randint(-limit // 2, 400000)
    room = balance + limit
    covered = seed % 2 == 0
    amount = max(1, room - rng.randint(0, max(1, room // 3))) if covered else room + rng.randint(1, 60000)
    payee = rng.choice(PAYEES)
    text = rng.choice(["Please pay {a} to {p} from account {k}.", "{k}: {a} for {p}, today please.", "From my account {k}, {p} should get {a}."])
    return {
        "request": text.format(a=money(amount), p=payee, k=account),
        "account": {"account": account, "balance": money(balance), "overdraft_limit": money(limit), "currency": "EUR"},
        "payee": payee,
        "amount": amount,
        "covered": amount <= room,
        "looked": False,
    }


def act(name, given):
    if name == "show_fees":
        return json.dumps({"payment": "0.00", "statement": "2.50"}), False
    if given["account"] != S["account"]["account"]:
        return "Error: no such account", True
    if name == "show_account":
        S["looked"] = True
        return json.dumps(S["account"]), False
    value = cents(given["amount"])
    if value is None:
        return "Error: amount cannot be read", True
    S["log"].append((given["payee"], value, S["looked"]))
    return json.dumps({"paid": money(value)}), False


def judge():
    looked = S["looked"] and all(seen for *_, seen in S["log"])
    want = [(S["payee"], S["amount"])] if S["covered"] else []
    right = looked and [one[:2] for one in S["log"]] == want
    return [("account_read", "action", looked, 1), ("payment", "state", right, 2), ("answered", "communicate", right and bool(S["last"].strip()), 1)]


def solve(s):
    look = ("show_account", {"account": s["account"]["account"]})
    if s["covered"]:
        return [look, ("make_payment", {"account": s["account"]["account"], "payee": s["payee"], "amount": money(s["amount"])}), "The payment is made."]
    return [look, "I am sorry, the account does not cover this payment."]


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
