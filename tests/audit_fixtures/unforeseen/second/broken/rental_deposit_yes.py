"""Car rental: name the amount and get a yes before a deposit is charged."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

POLICY = """You close rentals at the desk of a car rental. If the return record shows damage, tell the customer its cost and
ask whether you may take it from the deposit. Take it only after the customer has agreed to that amount. If there is no damage, release the
deposit without asking."""

TOOLS = [
    _t("get_return", "Show the return record of a rental.", ["rental_id"], rental_id="string"),
    _t("charge_deposit", "Take an amount from the deposit.", ["rental_id", "amount"], rental_id="string", amount="integer"),
    _t("release_deposit", "Give the whole deposit back.", ["rental_id"], rental_id="string"),
]


def scene(seed):
    rng = random.Random(f"deposit|{seed}")
    cost = rng.randint(40, 480) if seed % 2 else 0
    rental = f"R-{rng.randint(100000, 999999)}"
    text = rng.choice(["I have brought the car of {r} back.", "Rental {r} is done, please close it.", "Here are the keys, {r}. What about my deposit?"])
    part = rng.choice(["bumper", "left mirror", "rim", "door"])
    return {
        "request": text.format(r=rental),
        "record": {"rental_id": rental, "fuel": "full", "damage": part if cost else "none", "damage_cost": cost, "km": rng.randint(40, 2900)},
        "answer": rng.choice(["Yes, that is fine.", "All right.", "Yes, go on."]),
        "asked": False,
        "looked": False,
    }


def act(name, given):
    if given["rental_id"] != S["record"]["rental_id"]:
        return json.dumps({"error": "no such rental"}), True
    if name == "get_return":
        S["looked"] = True
        return json.dumps(S["record"]), False
    S["log"].append((name, given.get("amount", 0), S["asked"]))
    return json.dumps({"rental_id": given["rental_id"], "status": "closed"}), False


def user(text):
    if S["log"] or S["asked"] or not S["record"]["damage_cost"]:
        return ""
    S["asked"] = True
    return S["answer"]


def judge():
    cost = S["record"]["damage_cost"]
    want = ("charge_deposit", cost, True) if cost else ("release_deposit", 0, False)
    right = S["looked"] and S["log"] == [want]
    return [("looked", "action", S["looked"], 1), ("agreed", "communicate", S["asked"] == bool(cost) and right, 1), ("deposit", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    key = {"rental_id": s["record"]["rental_id"]}
    cost = s["record"]["damage_cost"]
    if not cost:
        return [("get_return", key), ("release_deposit", key), "There is no damage. Your whole deposit is on its way back."]
    ask = f"There is damage: {s['record']['damage']}. It costs {cost}. May I take {cost} from your deposit?"
    return [("get_return", key), ask, ("charge_deposit", {**key, "amount": cost}), "Thank you, that is settled."]


S = {}
