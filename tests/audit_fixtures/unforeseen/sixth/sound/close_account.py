"""A bank: close an account, or hand the customer over where that is not one's own to decide."""

import json
import random


def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """Customers of a bank ask to have an account closed. Look it up. Close it with close_account, and have what is on it paid to the account that the customer names. An account that is pledged, that has a second holder, or that is
overdrawn is not yours to close: hand the customer over to a colleague with transfer_to_colleague and a short summary, and close nothing."""

TOOLS = [
    _t("get_account", "Show an account.", ["account"], account="string"),
    _t("close_account", "Close an account and pay out what is on it.", ["account", "pay_to"], account="string", pay_to="string"),
    _t("transfer_to_colleague", "Hand the customer over.", ["summary"], summary="string"),
]

NAMES = ["Ida Roth", "Paul Simon", "Eva Lang", "Jan Vogt", "Mia Kern", "Leo Haas"]


def scene(seed):
    rng = random.Random(f"close|{seed}")
    kind = rng.choice(["plain", "plain", "plain", "pledged", "second", "overdrawn"])
    holder, other = rng.sample(NAMES, 2)
    account, pay_to = (f"{letter}{number}" for letter, number in zip("AP", rng.sample(range(10000, 99999), 2)))
    cents = rng.randint(100, 900000)
    record = {"account": account, "holders": [holder, other] if kind == "second" else [holder], "pledged": kind == "pledged", "balance": f"{'-' if kind == 'overdrawn' else ''}{cents // 100}.{cents % 100:02d}"}
    text = rng.choice(["Please close my account {a} and send the rest to {p}.", "I do not need {a} any more. What is on it can go to {p}.", "I want to end account {a}; {p} is where the money should go."])
    return {"request": text.format(a=account, p=pay_to), "record": record, "pay_to": pay_to, "close": kind == "plain", "looked": False}


def act(name, given):
    if name == "transfer_to_colleague":
        if not given["summary"].strip():
            return json.dumps({"error": "the summary is empty"}), True
        S["log"].append(("transfer", "", S["looked"]))
        return json.dumps({"status": "handed over"}), False
    if given["account"] != S["record"]["account"]:
        return json.dumps({"error": "no such account"}), True
    if name == "get_account":
        S["looked"] = True
        return json.dumps(S["record"]), False
    S["log"].append(("close", given["pay_to"], S["looked"]))
    return json.dumps({"account": given["account"], "status": "closed"}), False


def judge():
    wanted = ("close", S["pay_to"], True) if S["close"] else ("transfer", "", True)
    right = S["log"] == [wanted]
    return [("looked", "action", S["looked"], 1), ("done", "state", right, 3), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    look = ("get_account", {"account": s["record"]["account"]})
    if s["close"]:
        return [look, ("close_account", {"account": s["record"]["account"], "pay_to": s["pay_to"]}), "The account is closed, and the money is on its way."]
    return [look, ("transfer_to_colleague", {"summary": f"The customer wants {s['record']['account']} closed, which I may not do."}), "A colleague will see to it."]


def user(text):
    return ""


S = {}
