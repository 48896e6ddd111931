"""Car workshop: ask before a bill exceeds its estimate by too much."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

POLICY = """You close orders of a car workshop. The bill of an order may exceed its estimate by up to 15 percent. If it would exceed it by more, tell the
customer the amount of the bill and ask; bill it only if the customer agrees. If the customer does not agree, put the order on hold with hold_order. If the bill is within
those 15 percent, bill it without asking. Amounts are in euros."""

TOOLS = [
    _t("get_order", "Show an order with estimate and costs.", ["order"], order="string"),
    _t("bill_order", "Bill an order.", ["order", "amount"], order="string", amount="integer"),
    _t("hold_order", "Put an order on hold.", ["order"], order="string"),
]


def scene(seed):
    rng = random.Random(f"workshop|{seed}")
    estimate = rng.randint(30, 110) * 10
    over = rng.choice([rng.randint(-20, 14), rng.randint(16, estimate // 8), rng.randint(estimate // 5, estimate // 2)])
    total = estimate + over
    parts = rng.randint(total // 4, total // 2)
    order = f"W{rng.randint(10000, 99999)}"
    text = rng.choice(["Is my car ready? Order {o}.", "I would like to fetch my car, {o}.", "{o}, please make the bill."])
    return {
        "request": text.format(o=order),
        "order": {"order": order, "estimate": estimate, "parts": parts, "labour": total - parts, "kilometres": rng.randint(9000, 190000)},
        "total": total,
        "ask": over > 15,
        "agrees": rng.random() < 0.6,
        "words": rng.randrange(3),
        "asked": False,
        "looked": False,
    }


def act(name, given):
    if given["order"] != S["order"]["order"]:
        return json.dumps({"error": "no such order"}), True
    if name == "get_order":
        S["looked"] = True
        return json.dumps(S["order"]), False
    S["log"].append((name, given.get("amount", 0), S["asked"]))
    return json.dumps({"order": given["order"], "status": "billed" if name == "bill_order" else "on hold"}), False


def user(text):
    if S["log"] or S["asked"]:
        return ""
    S["asked"] = True
    if S["agrees"]:
        return ["Yes, that is all right.", "Fine, I agree.", "Go on, please."][S["words"]]
    return ["No, that is too much.", "I do not agree with that.", "No. I have to think about it."][S["words"]]


def judge():
    bill = not S["ask"] or S["agrees"]
    want = ("bill_order", S["total"], S["ask"]) if bill else ("hold_order", 0, True)
    right = S["looked"] and S["log"] == [want]
    named = not S["ask"] or any(str(S["total"]) in one for one in S["said"])
    return [("looked", "action", S["looked"], 1), ("named", "communicate", named and right, 1), ("order", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    key = {"order": s["order"]["order"]}
    total = s["total"]
    bill = ("bill_order", {**key, "amount": total})
    if not s["ask"]:
        return [("get_order", key), bill, f"Your car is ready. The bill is {total} euros."]
    ask = f"The bill is {total} euros, where {s['order']['estimate']} were estimated. Do you agree?"
    if s["agrees"]:
        return [("get_order", key), ask, bill, "Thank you, it is billed."]
    return [("get_order", key), ask, ("hold_order", key), "I have put the order on hold."]


S = {}
