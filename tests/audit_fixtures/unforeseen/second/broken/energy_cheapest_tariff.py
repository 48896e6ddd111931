"""Energy: compute what every tariff costs a customer before one is named the cheapest."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

POLICY = """You advise the customers of an electricity supplier. A customer who asks for the cheapest tariff gets the one that costs
the least at the yearly use that the customer's record shows: twelve times the monthly fee, plus the price per kWh for every kWh. Compute it for every
tariff of the list; the list is in no order. If the customer has the cheapest one already, change nothing and say so."""

TOOLS = [
    _t("get_customer", "Show a customer's use and tariff.", ["customer_id"], customer_id="string"),
    _t("list_tariffs", "List all tariffs that can be had.", []),
    _t("switch_tariff", "Move a customer to another tariff.", ["customer_id", "tariff_id"], customer_id="string", tariff_id="string"),
]


def scene(seed):
    rng = random.Random(f"tariff|{seed}")
    use = rng.randrange(900, 6000, 10)
    rows = []
    while len(rows) < 4:
        row = {"tariff_id": f"T{rng.randint(100, 999)}", "monthly_fee": rng.randint(3, 24), "cents_per_kwh": rng.randint(21, 44)}
        cost = 1200 * row["monthly_fee"] + use * row["cents_per_kwh"]
        if all(abs(cost - other[0]) > 1500 and row["tariff_id"] != other[1]["tariff_id"] for other in rows):
            rows.append((cost, row))
    best = min(rows, key=lambda one: one[0])
    rows = [best] + [one for one in rows if one is not best]
    own = best if seed % 3 == 0 else rng.choice(rows[1:])
    customer = f"C{rng.randint(10000, 99999)}"
    text = rng.choice(["I am {c}. Put me on the cheapest tariff.", "Which tariff is the cheapest for me? Customer {c}, please switch me to it.", "{c} here, I pay too much. I want the cheapest tariff there is."])
    return {
        "request": text.format(c=customer),
        "customer": {"customer_id": customer, "kwh_a_year": use, "tariff_id": own[1]["tariff_id"]},
        "rows": [row for _, row in rows],
        "want": "" if own is best else best[1]["tariff_id"],
        "seen": set(),
    }


def act(name, given):
    if name == "list_tariffs":
        S["seen"].add("list")
        return json.dumps({"tariffs": S["rows"]}), False
    if given["customer_id"] != S["customer"]["customer_id"]:
        return json.dumps({"error": "no such customer"}), True
    if name == "get_customer":
        S["seen"].add("customer")
        return json.dumps(S["customer"]), False
    if given["tariff_id"] not in [row["tariff_id"] for row in S["rows"]]:
        return json.dumps({"error": "no such tariff"}), True
    S["log"].append(given["tariff_id"])
    return json.dumps({"customer_id": given["customer_id"], "tariff_id": given["tariff_id"], "status": "switched"}), False


def user(text):
    return ""


def judge():
    looked = S["seen"] == {"list", "customer"}
    right = looked and S["log"] == ([S["want"]] if S["want"] else [])
    return [("looked", "action", looked, 1), ("tariff", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    key = s["customer"]["customer_id"]
    looks = [("get_customer", {"customer_id": key}), ("list_tariffs", {})]
    if s["want"]:
        return [*looks, ("switch_tariff", {"customer_id": key, "tariff_id": s["want"]}), f"You are on {s['want']} now, the cheapest for your use."]
    return [*looks, "You have the cheapest tariff for your use already."]


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
