"""Bakery: deliver what there is; nobody says that a look comes first, and it does all the same."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You take orders for a bakery. Deliver as many loaves of an order as there are, no more than were ordered. Where there are none, put the order off until tomorrow with put_off."""

TOOLS = [
    _t("get_stock", "Show how many loaves there are for an order.", ["order"], order="string"),
    _t("deliver", "Deliver loaves to whoever ordered them.", ["order", "loaves"], order="string", loaves="integer"),
    _t("put_off", "Put an order off until tomorrow.", ["order"], order="string"),
]


def scene(seed):
    rng = random.Random(f"bakery|{seed}")
    order, wish = f"L{rng.randint(10000, 99999)}", rng.randint(3, 30)
    there = 0 if rng.random() < 0.4 else rng.randint(1, 40)
    text = rng.choice(["{w} loaves for {o}.", "Please send me {w} loaves, the order is {o}.", "{o} wants {w} loaves today."])
    return {"request": text.format(w=wish, o=order), "order": order, "wish": wish, "there": there, "looked": False}


def act(name, given):
    if given["order"] != S["order"]:
        return json.dumps({"error": "no such order"}), True
    if name == "get_stock":
        S["looked"] = True
        return json.dumps({"order": S["order"], "loaves": S["there"], "oven": "warm"}), False
    S["log"].append((name, given.get("loaves"), S["looked"]))
    return json.dumps({"order": S["order"], "status": "noted"}), False


def user(text):
    return ""


def judge():
    n = min(S["wish"], S["there"])
    right = S["log"] == [("deliver", n, True) if n else ("put_off", None, True)]
    return [("looked", "action", S["looked"], 1), ("delivered", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    key, n = {"order": s["order"]}, min(s["wish"], s["there"])
    if not n:
        return [("get_stock", key), ("put_off", key), "We have none today, they come tomorrow."]
    return [("get_stock", key), ("deliver", {**key, "loaves": n}), f"{n} loaves are on their way."]


S = {}
