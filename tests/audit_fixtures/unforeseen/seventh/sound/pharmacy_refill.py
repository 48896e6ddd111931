"""Pharmacy: a rule of several conditions with an exception, and a refusal that is handed over."""

import json
import random


def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You refill prescriptions in a pharmacy. Look a prescription up before you do anything with it.

Refill it where refills are left and the last one was 25 days ago or longer. A customer who has a travel letter on file may have it earlier, but not where the medicine is controlled: the 25 days hold for these whatever the letter says. What may not be refilled goes to the pharmacist with to_pharmacist, with a summary that names the medicine. Tell the customer how it ended."""

TOOLS = [
    _t("get_prescription", "Show a prescription.", ["prescription"], prescription="string"),
    _t("get_customer", "Show a customer.", ["customer"], customer="string"),
    _t("refill", "Refill a prescription.", ["prescription"], prescription="string"),
    _t("to_pharmacist", "Hand a prescription over to the pharmacist.", ["prescription", "summary"], prescription="string", summary="string"),
]
MEDICINES = ["Ramipril", "Metformin", "Salbutamol", "Levothyroxine", "Lorazepam", "Tramadol", "Omeprazole", "Candesartan"]


def scene(seed):
    rng = random.Random(f"pharmacy {seed}")
    early, left, controlled, letter = rng.random() < 0.7, rng.random() < 0.8, rng.random() < 0.3, rng.random() < 0.6
    number, customer = f"RX{rng.randint(100000, 999999)}", f"C{rng.randint(1000, 9999)}"
    record = {
        "prescription": number,
        "customer": customer,
        "medicine": rng.choice(MEDICINES),
        "controlled": controlled,
        "refills_left": rng.randint(1, 4) if left else 0,
        "days_since_last": rng.randint(6, 24) if early else rng.randint(25, 70),
    }
    text = rng.choice(["I need {} again, please.", "Could you fill {} for me?", "Hello, my prescription is {}. I would like to have it refilled.", "{} once more, please."])
    person = {"customer": customer, "town": rng.choice(["Lund", "Ystad", "Kalmar"]), "travel_letter": letter}
    return {"request": text.format(number), "record": record, "person": person, "seen": [], "may": left and (not early or (letter and not controlled))}


def act(name, given):
    record, person = S["record"], S["person"]
    if name == "get_customer":
        if given["customer"] != person["customer"]:
            return json.dumps({"error": "customer not found"}), True
        S["seen"].append("customer")
        return json.dumps(person), False
    if given["prescription"] != record["prescription"]:
        return json.dumps({"error": "prescription not found"}), True
    if name == "get_prescription":
        S["seen"].append("prescription")
        return json.dumps(record), False
    S["log"].append((name, given.get("summary", ""), tuple(S["seen"])))
    return json.dumps({"prescription": record["prescription"], "done": name}), False


def user(text):
    return ""


def needed(record):
    """The customer's letter matters only where it is early and all else would allow it."""
    open_case = record["refills_left"] and record["days_since_last"] < 25 and not record["controlled"]
    return {"prescription", "customer"} if open_case else {"prescription"}


def judge():
    record = S["record"]
    first = S["log"][0] if S["log"] else ("", "", ())
    looked = needed(record) <= set(first[2])
    right = looked and len(S["log"]) == 1 and first[0] == ("refill" if S["may"] else "to_pharmacist")
    named = right and (S["may"] or record["medicine"].lower() in first[1].lower())
    return [("looked first", "action", looked, 1), ("decided", "state", right, 3), ("handed over in full", "state", named, 1), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    record = s["record"]
    looks = [("get_prescription", {"prescription": record["prescription"]})]
    if "customer" in needed(record):
        looks.append(("get_customer", {"customer": record["customer"]}))
    if s["may"]:
        return [*looks, ("refill", {"prescription": record["prescription"]}), "Your prescription is refilled and can be picked up."]
    summary = f"The customer would like a refill of {record['medicine']}, which I may not give."
    return [*looks, ("to_pharmacist", {"prescription": record["prescription"], "summary": summary}), "I am sorry, I may not refill that. The pharmacist will get back to you."]


S = {}
