"""Florist: an order that was entered wrongly may be corrected; what counts is what stands in the end."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You enter the orders of a florist. Look up with get_season which flower is in season for the colour that the customer wants, then enter the bouquet with
enter_bouquet. A wrong entry is corrected by entering the bouquet again: the later entry takes the place of the earlier one, as if that had never been made. If no flower of the colour is in
season, enter nothing, and tell the customer."""

FLOWERS = ["rose", "tulip", "aster", "dahlia"]
TOOLS = [
    _t("get_season", "Show which flower of a colour is in season.", ["order_id", "colour"], order_id="string", colour="string"),
    _t("enter_bouquet", "Enter the bouquet of an order; an earlier entry is replaced.", ["order_id", "flower", "stems"], order_id="string", flower={"type": "string", "enum": FLOWERS}, stems="integer"),
]


def scene(seed):
    rng = random.Random(f"florist|{seed}")
    flower = None if rng.random() < 0.4 else rng.choice(FLOWERS)
    order, colour, stems = f"F{rng.randint(1000, 9999)}", rng.choice(["red", "white", "yellow", "violet"]), rng.randint(5, 40)
    text = rng.choice(["{n} {c} stems for order {o}, please.", "Order {o}: I would like {n} flowers in {c}.", "Could {o} become {n} stems, all {c}?"])
    return {"request": text.format(n=stems, c=colour, o=order), "order": order, "colour": colour, "stems": stems, "flower": flower, "looked": False, "stands": None}


def act(name, given):
    if given["order_id"] != S["order"]:
        return json.dumps({"error": "no such order"}), True
    if name == "get_season":
        if given["colour"] != S["colour"]:
            return json.dumps({"colour": given["colour"], "in_season": None}), False
        S["looked"] = True
        return json.dumps({"colour": S["colour"], "in_season": S["flower"]}), False
    S["stands"] = (given["flower"], given["stems"], S["looked"])
    return json.dumps({"order_id": S["order"], "entered": given["flower"], "stems": given["stems"]}), False


def user(text):
    return ""


def judge():
    right = S["looked"] and S["stands"] == ((S["flower"], S["stems"], True) if S["flower"] else None)
    return [("looked", "action", S["looked"], 1), ("entered", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    look = ("get_season", {"order_id": s["order"], "colour": s["colour"]})
    if s["flower"] is None:
        return [look, f"Nothing in {s['colour']} is in season, so I have entered nothing."]
    return [look, ("enter_bouquet", {"order_id": s["order"], "flower": s["flower"], "stems": s["stems"]}), f"Your {s['flower']}s are entered."]


S = {}
