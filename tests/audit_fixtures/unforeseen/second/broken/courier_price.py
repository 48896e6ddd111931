"""Courier: work out what a parcel costs before it is booked."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

POLICY = """You book parcels for a courier. The price of a parcel is the price of its zone as the price list has it, and 2 more for
every whole kilogram above 5. A parcel of more than 30 kilograms is not carried: tell the customer and book nothing. Work the price out yourself; book it with book_parcel."""

TOOLS = [
    _t("get_parcel", "Show weight and zone of a parcel.", ["parcel_id"], parcel_id="string"),
    _t("get_zone", "Show what a zone covers.", ["zone"], zone="string"),
    _t("book_parcel", "Book a parcel at a price.", ["parcel_id", "price"], parcel_id="string", price="integer"),
]

ZONES = {"A": ("city", 7), "B": ("region", 11), "C": ("country", 16), "D": ("neighbouring countries", 28)}


def scene(seed):
    rng = random.Random(f"courier|{seed}")
    kilos = rng.randint(31, 44) if seed % 3 == 0 else rng.randint(1, 30)
    zone = rng.choice("ABCD")
    parcel = f"PX{rng.randint(100000, 999999)}"
    text = rng.choice(["Please send {p}.", "Can {p} go out today?", "I would like to have parcel {p} picked up."])
    price = ZONES[zone][1] + 2 * max(0, kilos - 5)
    return {"request": text.format(p=parcel), "parcel": {"parcel_id": parcel, "kilograms": kilos, "zone": zone}, "price": 0 if kilos > 30 else price, "looked": False}


def act(name, given):
    if name == "get_zone":
        if given["zone"] not in ZONES:
            return json.dumps({"error": "no such zone"}), True
        return json.dumps({"zone": given["zone"], "covers": ZONES[given["zone"]][0]}), False
    if given["parcel_id"] != S["parcel"]["parcel_id"]:
        return json.dumps({"error": "no such parcel"}), True
    if name == "get_parcel":
        S["looked"] = True
        return json.dumps(S["parcel"]), False
    S["log"].append(given["price"])
    return json.dumps({"parcel_id": given["parcel_id"], "status": "booked"}), False


def user(text):
    return ""


def judge():
    right = S["looked"] and S["log"] == ([S["price"]] if S["price"] else [])
    return [("looked", "action", S["looked"], 1), ("booked", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    key = {"parcel_id": s["parcel"]["parcel_id"]}
    looks = [("get_parcel", key), ("get_zone", {"zone": s["parcel"]["zone"]})]
    if not s["price"]:
        return [*looks, "That is too heavy for us, I am sorry."]
    return [*looks, ("book_parcel", {**key, "price": s["price"]}), f"It is booked, for {s['price']}."]


S = {}
