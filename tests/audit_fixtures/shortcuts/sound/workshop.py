"""Bicycle workshop: look a repair up before it is called off; one that has begun goes to the master."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You serve the customers of a bicycle workshop. Look a repair up with get_repair before anything is done to it. A repair that is waiting
is called off with cancel_repair, with the reason that the customer gives. A repair that has begun is passed on to the master with call_master. Nothing
is tried, done twice, or done to another repair."""

REASONS = ["sold", "too dear", "no longer needed"]
TOOLS = [
    _t("get_customer", "Show a customer with all repairs.", ["customer_id"], customer_id="string"),
    _t("get_repair", "Show a repair.", ["repair_id"], repair_id="string"),
    _t("get_hours", "Show when the workshop is open.", ["day"], day="string"),
    _t("cancel_repair", "Call a repair off.", ["repair_id", "reason"], repair_id="string", reason={"type": "string", "enum": REASONS}),
    _t("call_master", "Pass a repair on to the master.", ["repair_id"], repair_id="string"),
]


def scene(seed):
    rng = random.Random(f"workshop|{seed}")
    mine, other = (f"W{n}" for n in rng.sample(range(10000, 99999), 2))
    states = ["begun" if seed % 2 else "waiting", rng.choice(["begun", "waiting"])]
    repairs = {one: {"repair_id": one, "state": state, "bench": rng.randint(1, 40)} for one, state in zip((mine, other), states)}
    reason, customer = rng.choice(REASONS), f"K{rng.randint(1000, 9999)}"
    text = rng.choice(["Please call off {r}, it is {w}.", "{w}: I do not want {r} any more.", "Can you stop {r}? {w}, you see."])
    request = f"{text.format(r=mine, w=reason)} I am customer {customer}."
    return {"request": request, "mine": mine, "customer": customer, "reason": reason, "repairs": repairs, "begun": seed % 2 == 1, "seen": set(), "tried": 0}


def act(name, given):
    if name == "get_hours":
        return json.dumps({"day": given["day"], "open": "9 to 18"}), False
    if name == "get_customer":
        if given["customer_id"] != S["customer"]:
            return json.dumps({"error": "no such customer"}), True
        return json.dumps({"customer_id": S["customer"], "repairs": sorted(S["repairs"])}), False
    repair = S["repairs"].get(given["repair_id"])
    if repair is None:
        return json.dumps({"error": "no such repair"}), True
    if name == "get_repair":
        S["seen"].add(repair["repair_id"])
        return json.dumps(repair), False
    if name == "cancel_repair" and repair["state"] == "begun":
        S["tried"] += 1
        return json.dumps({"error": "it has begun"}), True
    S["log"].append((name, repair["repair_id"], given.get("reason"), repair["repair_id"] in S["seen"]))
    return json.dumps({"repair_id": repair["repair_id"], "status": "noted"}), False


def user(text):
    return ""


def judge():
    wanted = ("call_master", S["mine"], None, True) if S["begun"] else ("cancel_repair", S["mine"], S["reason"], True)
    looked = S["mine"] in S["seen"]
    right = looked and S["log"] == [wanted] and not S["tried"]
    word = "master" if S["begun"] else "off"
    return [("looked", "action", looked, 1), ("settled", "state", right, 2), ("told", "communicate", right and bool(S["said"]) and word in S["said"][-1], 1)]


def solve(s):
    key = {"repair_id": s["mine"]}
    if s["begun"]:
        return [("get_repair", key), ("call_master", key), "It has begun, so the master will call you."]
    return [("get_repair", key), ("cancel_repair", {**key, "reason": s["reason"]}), "The repair is called off."]


S = {}
