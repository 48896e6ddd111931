"""A bank: two wishes in one request, each with a condition of its own."""

import json
import random


def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You look after bank cards. Customers often want two things at once: a new card, and another limit. Each is judged by itself, and looked up before.
- A new card is ordered with order_card where the owner's address is confirmed; otherwise it is to be picked up: use hold_at_branch.
- A limit is set with set_limit where the owner has no arrears and the new limit is at most twice the present one; otherwise leave the limit and tell the customer."""

TOOLS = [
    _t("get_card", "Show a card.", ["card"], card="string"),
    _t("get_owner", "Show the owner of cards.", ["owner"], owner="string"),
    _t("order_card", "Send a new card to the owner's address.", ["card"], card="string"),
    _t("hold_at_branch", "Have a new card ready at the branch.", ["card"], card="string"),
    _t("set_limit", "Set the monthly limit of a card.", ["card", "limit"], card="string", limit="integer"),
]


def scene(seed):
    rng = random.Random(f"card {seed}")
    confirmed, arrears, much = rng.random() < 0.5, rng.random() < 0.3, rng.random() < 0.35
    present = 50 * rng.randint(10, 40)
    wanted = present * 2 + 50 * rng.randint(1, 10) if much else present + 50 * rng.randint(1, present // 50)
    card, owner = f"K{rng.randint(1000000, 9999999)}", f"P{rng.randint(10000, 99999)}"
    text = rng.choice(["My card {c} is scratched, I need a new one. And please set its limit to {w}.", "Please make the limit of {c} {w}, and send me a new card, the chip is broken.", "Two things about {c}: a limit of {w}, and a new card."])
    return {"request": text.format(c=card, w=wanted), "card": {"card": card, "owner": owner, "limit": present, "expires": f"20{rng.randint(27, 31)}-{rng.randint(1, 12):02d}"}, "owner": {"owner": owner, "address_confirmed": confirmed, "arrears": round(rng.uniform(5, 300), 2) if arrears else 0, "since": rng.randint(1990, 2024)}, "wanted": None if arrears or much else wanted, "seen": set()}


def act(name, given):
    if name == "get_owner":
        if given["owner"] != S["owner"]["owner"]:
            return json.dumps({"error": "no such owner"}), True
        S["seen"].add("owner")
        return json.dumps(S["owner"]), False
    if given["card"] != S["card"]["card"]:
        return json.dumps({"error": "no such card"}), True
    if name == "get_card":
        S["seen"].add("card")
        return json.dumps(S["card"]), False
    S["log"].append((name, given.get("limit"), len(S["seen"]) == 2))
    return json.dumps({"card": given["card"], "done": name}), False


def user(text):
    return ""


def judge():
    looked = len(S["seen"]) == 2
    way = "order_card" if S["owner"]["address_confirmed"] else "hold_at_branch"
    cards = [one for one in S["log"] if one[0] != "set_limit"]
    limits = [one for one in S["log"] if one[0] == "set_limit"]
    new = looked and cards == [(way, None, True)]
    limit = looked and limits == ([("set_limit", S["wanted"], True)] if S["wanted"] else [])
    return [("looked", "action", looked, 1), ("new card", "state", new, 2), ("limit", "state", new and limit, 2), ("told", "communicate", new and limit and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    card = s["card"]["card"]
    turns = [("get_card", {"card": card}), ("get_owner", {"owner": s["owner"]["owner"]})]
    way = "order_card" if s["owner"]["address_confirmed"] else "hold_at_branch"
    turns.append((way, {"card": card}))
    first = "Your new card is on its way." if way == "order_card" else "You can fetch your new card at the branch."
    if s["wanted"]:
        return [*turns, ("set_limit", {"card": card, "limit": s["wanted"]}), f"{first} The limit is set."]
    return [*turns, f"{first} I am sorry, I may not change the limit."]


S = {}
