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
