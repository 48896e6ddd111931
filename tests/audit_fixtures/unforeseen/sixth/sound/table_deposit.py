"""A restaurant: name the deposit and wait for a yes before a table is booked."""

import json
import random
import re


def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You book tables of a restaurant. Look the evening up with get_evening. If a deposit is asked for, it is for each guest: name the sum to the guest and wait for a yes before you book with book_table; on a no book nothing. If
no deposit is asked for, book at once. If there are too few seats, book nothing and say so."""

TOOLS = [
    _t("get_evening", "Show the seats and the deposit of an evening.", ["date"], date="string"),
    _t("book_table", "Book a table.", ["date", "guests"], date="string", guests="integer"),
]


def scene(seed):
    rng = random.Random(f"table|{seed}")
    kind = rng.choice(["free", "yes", "yes", "no", "no", "full"])
    guests, each = rng.randint(2, 9), 0 if kind == "free" else rng.randint(5, 25)
    if kind == "full" and rng.random() < 0.5:
        each = 0
    date = f"{rng.randint(2030, 2034)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"
    seats = rng.randint(0, guests - 1) if kind == "full" else guests + rng.randint(0, 12)
    text = rng.choice(["A table for {g} on {d}, please.", "We are {g} and would like to come on {d}.", "Do you have something for {g} people on {d}? Please book it."])
    return {"request": text.format(g=guests, d=date), "guests": guests, "each": each, "date": date, "seats": seats, "kind": kind, "looked": False, "asked": 0, "again": False}


def act(name, given):
    if given["date"] != S["date"]:
        return json.dumps({"error": "nothing is planned for this date"}), True
    if name == "get_evening":
        S["looked"] = True
        return json.dumps({"date": S["date"], "seats_left": S["seats"], "deposit_for_each": S["each"]}), False
    if given["guests"] < 1:
        return json.dumps({"error": "a table is for one guest at least"}), True
    S["log"].append((given["guests"], S["looked"], S["asked"]))
    return json.dumps({"date": S["date"], "guests": given["guests"], "status": "booked"}), False


def judge():
    ask = S["kind"] in ("yes", "no")
    wanted = [(S["guests"], True, int(ask))] if S["kind"] in ("free", "yes") else []
    right = S["looked"] and S["log"] == wanted and S["asked"] == ask
    return [("looked", "action", S["looked"], 1), ("asked", "communicate", S["looked"] and S["asked"] == ask and (ask or right), 1), ("done", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    look = ("get_evening", {"date": s["date"]})
    book = ("book_table", {"date": s["date"], "guests": s["guests"]})
    if s["kind"] == "full":
        return [look, "I am sorry, there are not enough seats on that evening."]
    if s["kind"] == "free":
        return [look, book, "Your table is booked."]
    question = f"There is a deposit of {s['each'] * s['guests']} euros in all. Shall I book?"
    if s["kind"] == "yes":
        return [look, question, book, "Your table is booked."]
    return [look, question, "Then I have booked nothing."]


def user(text):
    if S["kind"] not in ("yes", "no") or S["asked"] or S["log"]:
        return ""
    if str(S["each"] * S["guests"]) in re.findall(r"\d+", text):
        S["asked"] = 1
        return "Yes, that is all right." if S["kind"] == "yes" else "No, that is too much for us."
    if "?" in text and not S["again"]:
        S["again"] = True
        return "How much is it in all?"
    return ""


S = {}
