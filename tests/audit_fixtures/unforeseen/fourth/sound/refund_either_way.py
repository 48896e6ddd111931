"""Theatre: a show that was called off is made good by money or by a voucher, both are right."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You serve the guests of a theatre. Look a ticket up. If its show was called off, make it good with pay_back or with give_voucher, whichever you like, at the price of the ticket. If the show
takes place, nothing is made good; say so."""

TOOLS = [
    _t("get_ticket", "Show a ticket.", ["ticket"], ticket="string"),
    _t("pay_back", "Pay money back for a ticket.", ["ticket", "euros"], ticket="string", euros="integer"),
    _t("give_voucher", "Give a voucher for a ticket.", ["ticket", "euros"], ticket="string", euros="integer"),
]


def scene(seed):
    rng = random.Random(f"theatre|{seed}")
    ticket, price, off = f"T{rng.randint(10000, 99999)}", rng.randint(12, 140), seed % 2 == 0
    text = rng.choice(["I cannot come with {t}, can that be made good?", "What do I get for {t}?", "I would like something back for {t}."])
    record = {"ticket": ticket, "price": price, "show": "called off" if off else "takes place", "row": rng.randint(1, 30)}
    return {"request": text.format(t=ticket), "ticket": ticket, "record": record, "price": price, "off": off, "looked": False}


def act(name, given):
    if given["ticket"] != S["ticket"]:
        return json.dumps({"error": "no such ticket"}), True
    if name == "get_ticket":
        S["looked"] = True
        return json.dumps(S["record"]), False
    S["log"].append((given["euros"], S["looked"]))
    return json.dumps({"ticket": S["ticket"], "status": "made good"}), False


def user(text):
    return ""


def judge():
    right = S["looked"] and S["log"] == ([(S["price"], True)] if S["off"] else [])
    return [("looked", "action", S["looked"], 1), ("made good", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    key = {"ticket": s["ticket"]}
    if s["off"]:
        return [("get_ticket", key), ("pay_back", {**key, "euros": s["price"]}), "The money is on its way back to you."]
    return [("get_ticket", key), "The show takes place, so the ticket stays as it is."]


S = {}
