"""Vet: check a new medicine against everything that an animal gets."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

POLICY = """You work in a veterinary practice. Before an animal gets a new medicine, look up with check_pair how it goes together with each medicine
that the animal gets already. As soon as one pair is dangerous, call_vet instead of giving it; the others need not be looked up then. Give it only if no pair is
dangerous. A pair that is to be watched is no hindrance."""

TOOLS = [
    _t("get_animal", "Show an animal with what it gets.", ["animal_id"], animal_id="string"),
    _t("check_pair", "Show how two medicines go together.", ["new", "present"], new="string", present="string"),
    _t("give_medicine", "Give a medicine to an animal and book it.", ["animal_id", "medicine"], animal_id="string", medicine="string"),
    _t("call_vet", "Call the vet because of a medicine; books the call.", ["animal_id", "medicine"], animal_id="string", medicine="string"),
]

NAMES = ["Amivet", "Bovacid", "Canipril", "Dorexan", "Equidol", "Felimox", "Gastrovet", "Hepacan", "Immovet", "Kardipet"]


def scene(seed):
    rng = random.Random(f"vet|{seed}")
    new, *present = rng.sample(NAMES, rng.randint(4, 6))
    danger = rng.choice(present) if seed % 2 else ""
    pairs = {one: "dangerous" if one == danger else rng.choice(["fine", "to be watched"]) for one in present}
    animal = f"A{rng.randint(1000, 9999)}"
    text = rng.choice(["{a} is to get {m} now.", "Please give {m} to {a}.", "The dog {a} is here for its {m}."])
    return {"request": text.format(a=animal, m=new), "animal": animal, "new": new, "pairs": pairs, "danger": danger, "kilos": rng.randint(3, 60), "checked": set()}


def act(name, given):
    if name == "check_pair":
        if given["new"] != S["new"] or given["present"] not in S["pairs"]:
            return json.dumps({"error": "unknown pair"}), True
        S["checked"].add(given["present"])
        return json.dumps({"new": S["new"], "present": given["present"], "together": S["pairs"][given["present"]]}), False
    if given["animal_id"] != S["animal"]:
        return json.dumps({"error": "unknown animal"}), True
    if name == "get_animal":
        return json.dumps({"animal_id": S["animal"], "kilograms": S["kilos"], "gets": list(S["pairs"])}), False
    if given["medicine"] != S["new"]:
        return json.dumps({"error": "not prescribed"}), True
    S["log"].append((name, S["checked"] == set(S["pairs"]), S["danger"] in S["checked"]))
    return json.dumps({"animal_id": S["animal"], "status": "booked"}), False


def user(text):
    return ""


def judge():
    if S["danger"]:
        checked = S["danger"] in S["checked"]
        right = [(one[0], one[2]) for one in S["log"]] == [("call_vet", True)]
    else:
        checked = S["checked"] == set(S["pairs"])
        right = [one[:2] for one in S["log"]] == [("give_medicine", True)]
    return [("checked", "action", checked, 1), ("medicine", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    steps = [("get_animal", {"animal_id": s["animal"]})]
    given = {"animal_id": s["animal"], "medicine": s["new"]}
    for one, together in s["pairs"].items():
        steps.append(("check_pair", {"new": s["new"], "present": one}))
        if together == "dangerous":
            return [*steps, ("call_vet", given), f"{s['new']} does not go with {one}; I have called the vet."]
    return [*steps, ("give_medicine", given), f"{s['new']} has been given."]


S = {}
