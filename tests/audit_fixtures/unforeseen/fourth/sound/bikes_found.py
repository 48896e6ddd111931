"""Bicycles: which one is meant is found by opening them one after the other."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You watch over bicycles at a station. Whoever comes for one names their card and its colour. List the bicycles of the card and open them until you have found the one of that colour, then hand
it out with release_bike. A bicycle with unpaid rent is not released; keep it with keep_bike."""

TOOLS = [
    _t("list_bikes", "Show the bicycles of a card.", ["card"], card="string"),
    _t("get_bike", "Show a bicycle.", ["bike"], bike="string"),
    _t("release_bike", "Hand a bicycle out.", ["bike"], bike="string"),
    _t("keep_bike", "Keep a bicycle until its rent is paid.", ["bike"], bike="string"),
]

COLOURS = ["red", "green", "black", "white", "orange", "silver"]


def scene(seed):
    rng = random.Random(f"bikes|{seed}")
    card = f"C{rng.randint(10000, 99999)}"
    bikes = {f"V{n}": {"colour": c, "unpaid": rng.random() < 0.5} for n, c in zip(rng.sample(range(1000, 9999), 4), rng.sample(COLOURS, 4))}
    meant = rng.choice(list(bikes))
    bikes[meant]["unpaid"] = seed % 2 == 0
    text = rng.choice(["I have come for the {c} one, card {k}.", "Card {k}: my {c} bicycle, please.", "May I have the {c} bicycle of card {k}?"])
    return {"request": text.format(c=bikes[meant]["colour"], k=card), "card": card, "bikes": bikes, "meant": meant, "opened": set()}


def act(name, given):
    if name == "list_bikes":
        if given["card"] != S["card"]:
            return json.dumps({"error": "no such card"}), True
        return json.dumps({"card": S["card"], "bikes": list(S["bikes"])}), False
    if given["bike"] not in S["bikes"]:
        return json.dumps({"error": "no such bicycle"}), True
    if name == "get_bike":
        S["opened"].add(given["bike"])
        return json.dumps({"bike": given["bike"], **S["bikes"][given["bike"]]}), False
    S["log"].append((name, given["bike"], given["bike"] in S["opened"]))
    return json.dumps({"bike": given["bike"], "status": "noted"}), False


def user(text):
    return ""


def judge():
    name = "keep_bike" if S["bikes"][S["meant"]]["unpaid"] else "release_bike"
    looked = S["meant"] in S["opened"]
    right = S["log"] == [(name, S["meant"], True)]
    return [("looked", "action", looked, 1), ("settled", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    steps = [("list_bikes", {"card": s["card"]})]
    for one in s["bikes"]:
        steps.append(("get_bike", {"bike": one}))
        if one == s["meant"]:
            break
    if s["bikes"][s["meant"]]["unpaid"]:
        return [*steps, ("keep_bike", {"bike": s["meant"]}), "Its rent is not paid, so it stays here."]
    return [*steps, ("release_bike", {"bike": s["meant"]}), "Here it is."]


S = {}
