"""A vet: name the price and wait for a yes before anything is booked."""

import json
import random
import re


def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You book treatments for a vet. Look up which treatments there are for what the animal has. Offer the full treatment first, with its price; if the owner does not want it, offer the simple one, with its price. Book only what the owner has agreed to after hearing its price. If the owner wants neither, book nothing and say goodbye."""

TOOLS = [
    _t("list_treatments", "Show the treatments for a complaint.", ["complaint"], complaint="string"),
    _t("book", "Book a treatment for an animal.", ["animal", "treatment"], animal="string", treatment="string"),
]
COMPLAINTS = {"a limp": "limp", "bad teeth": "teeth", "an itch": "itch", "a cough": "cough"}
YES = ["Yes, please do that.", "That is fine, go ahead.", "All right, let us do that.", "Good, please."]
NO = ["No, that is too much for me.", "I would rather not, that is a lot of money.", "Hm, no, not at that price."]


def scene(seed):
    rng = random.Random(f"vet {seed}")
    said, complaint = rng.choice(sorted(COMPLAINTS.items()))
    full = rng.randint(120, 390)
    simple = rng.randint(30, 110)
    rows = [{"treatment": f"T{rng.randint(100, 999)}", "kind": "full", "price": full}, {"treatment": f"U{rng.randint(100, 999)}", "kind": "simple", "price": simple}]
    rng.shuffle(rows)
    animal = f"{rng.choice(['Mila', 'Rex', 'Tiger', 'Flocke', 'Bruno', 'Kiwi'])}-{rng.randint(100, 999)}"
    text = rng.choice(["{} has {}. What can you do?", "My {} seems to have {}, can you help?", "Could somebody see {}? It has {}."])
    return {"request": text.format(animal, said), "animal": animal, "complaint": complaint, "rows": rows, "takes": rng.choice(["full", "simple", "none"]), "yes": rng.choice(YES), "no": rng.choice(NO), "offered": [], "agreed": None, "asked_back": 0}


def _row(kind):
    return next(row for row in S["rows"] if row["kind"] == kind)


def act(name, given):
    if name == "list_treatments":
        if given["complaint"].lower() not in {S["complaint"], *[one for one in COMPLAINTS if COMPLAINTS[one] == S["complaint"]]}:
            return json.dumps({"error": f"no such complaint; there are {sorted(COMPLAINTS.values())}"}), True
        return json.dumps({"treatments": S["rows"]}), False
    if given["animal"] != S["animal"] or given["treatment"] not in [row["treatment"] for row in S["rows"]]:
        return json.dumps({"error": "no such animal or treatment"}), True
    S["log"].append((given["treatment"], S["agreed"]))
    return json.dumps({"booked": given["treatment"]}), False


def user(text):
    """The owner hears prices, not names, and gives an answer to the first that is new."""
    if S["log"] or len(S["offered"]) == 2 or S["agreed"]:
        return ""
    heard = [kind for kind in ("full", "simple") if re.search(rf"(?<!\d){_row(kind)['price']}(?!\d)", text)]
    if not heard:
        S["asked_back"] += 1
        return "And what would that cost?" if S["asked_back"] < 3 else ""
    if len(heard) == 2 or heard[0] in S["offered"]:
        S["asked_back"] += 1
        return "One after the other, please." if S["asked_back"] < 3 else ""
    S["offered"].append(heard[0])
    if heard[0] == S["takes"]:
        S["agreed"] = _row(heard[0])["treatment"]
        return S["yes"]
    return S["no"]


def judge():
    ended = ["full"] if S["takes"] == "full" else ["full", "simple"]
    offered = S["offered"] == ended
    wanted = [] if S["takes"] == "none" else [(_row(S["takes"])["treatment"],) * 2]
    right = offered and S["log"] == wanted and S["over"]
    return [("offered", "communicate", offered, 1), ("booked what was agreed to", "state", right, 3)]


def solve(s):
    prices = {row["kind"]: row for row in s["rows"]}
    turns = [("list_treatments", {"complaint": s["complaint"]}), f"The full treatment costs {prices['full']['price']} euros. Shall I book it?"]
    if s["takes"] != "full":
        turns.append(f"There is a simple treatment too, for {prices['simple']['price']} euros. Would you like that?")
    if s["takes"] == "none":
        return [*turns, "Then I leave it at that. Goodbye, and all the best."]
    return [*turns, ("book", {"animal": s["animal"], "treatment": prices[s["takes"]]["treatment"]}), "It is booked."]


S = {}
