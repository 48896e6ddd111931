"""Pharmacy: check a new medicine against everything that a patient takes."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

POLICY = """You dispense medicines. Before a new one is dispensed, check it against every medicine that the patient takes
already. If it has a severe interaction with any of them, do not dispense it: refer the patient to the doctor with
refer_to_doctor. Mild interactions do not matter."""

TOOLS = [
    _t("list_medicines", "The medicines that a patient takes.", ["patient_id"], patient_id="string"),
    _t("check_interaction", "Show how two medicines go together.", ["medicine", "other"], medicine="string", other="string"),
    _t("dispense_medicine", "Dispense a medicine to a patient.", ["patient_id", "medicine"], patient_id="string", medicine="string"),
    _t("refer_to_doctor", "Send a patient back to the doctor because of a medicine.", ["patient_id", "medicine"], patient_id="string", medicine="string"),
]

NAMES = ["Aldovan", "Benorin", "Cartomil", "Dexapan", "Elonade", "Fentrol", "Gavitan", "Histomed", "Ibralon", "Joritol", "Kelvadin", "Lomasan"]


def scene(seed):
    rng = random.Random(f"pharmacy|{seed}")
    names = rng.sample(NAMES, rng.randint(4, 5))
    new, taken = names[0], names[1:]
    severe = seed % 2 == 1
    found = {other: rng.choice(["none", "mild"]) for other in taken}
    if severe:
        found[taken[0]] = "severe"
    patient = f"P{rng.randint(10000, 99999)}"
    text = rng.choice(["I am to get {m}. My number is {p}.", "Patient {p}, the doctor wrote down {m} for me.", "Could I have {m}, please? ({p})"])
    return {"request": text.format(m=new, p=patient), "patient": patient, "new": new, "taken": taken, "found": found, "severe": severe, "checked": set()}


def act(name, given):
    if name == "check_interaction":
        pair = {given["medicine"], given["other"]}
        others = pair - {S["new"]}
        if S["new"] not in pair or len(others) != 1 or not others <= set(S["taken"]):
            return json.dumps({"error": "one of the medicines is not known here"}), True
        other = others.pop()
        S["checked"].add(other)
        return json.dumps({"medicine": S["new"], "other": other, "interaction": S["found"][other]}), False
    if given["patient_id"] != S["patient"]:
        return json.dumps({"error": "no such patient"}), True
    if name == "list_medicines":
        return json.dumps({"patient_id": S["patient"], "medicines": S["taken"]}), False
    if given["medicine"] != S["new"]:
        return json.dumps({"error": "that is not prescribed"}), True
    S["log"].append((name, bool(S["checked"])))
    return json.dumps({"status": "done"}), False


def user(text):
    return ""


def judge():
    want = "refer_to_doctor" if S["severe"] else "dispense_medicine"
    checked = bool(S["checked"])
    right = S["log"] == [(want, True)]
    return [("checked", "action", checked, 1), ("medicine", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    steps = [("list_medicines", {"patient_id": s["patient"]})]
    steps += [("check_interaction", {"medicine": s["new"], "other": one}) for one in s["taken"]]
    given = {"patient_id": s["patient"], "medicine": s["new"]}
    if s["severe"]:
        return [*steps, ("refer_to_doctor", given), "It does not go with what you take; please see your doctor first."]
    return [*steps, ("dispense_medicine", given), "Here you are."]


S = {}
