"""Blood donation: work out the waiting time by kind of the last donation."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

from datetime import date, timedelta

POLICY = """You make appointments at a blood donation service. After a donation of whole blood a donor waits 56 days, after platelets 14 days, after plasma 7
days, counted from the day of the donation; from the day on which they are over another donation is allowed. If the day that the donor wishes is early enough to be forbidden, make no
appointment and tell the donor the first day that is allowed, or hand over with ask_doctor if you prefer that a doctor tells it. Otherwise make it with book."""

TOOLS = [
    _t("get_donor", "Show a donor with the last donation.", ["donor"], donor="string"),
    _t("book", "Make an appointment.", ["donor", "day"], donor="string", day="string"),
    _t("ask_doctor", "Hand a donor over to the doctor on duty.", ["donor", "note"], donor="string", note="string"),
]

WAITS = {"whole blood": 56, "platelets": 14, "plasma": 7}


def scene(seed):
    rng = random.Random(f"donation|{seed}")
    kind = rng.choice(sorted(WAITS))
    last = date(2031, 1, 10) + timedelta(days=rng.randint(0, 250))
    first = last + timedelta(days=WAITS[kind])
    wish = first + timedelta(days=rng.randint(0, 30) if rng.random() < 0.5 else -rng.randint(1, WAITS[kind] - 2))
    donor = f"D{rng.randint(10000, 99999)}"
    text = rng.choice(["May I come on {w}? I am donor {d}.", "{d} here, I would like to give blood on {w}.", "An appointment on {w} for {d}, please."])
    return {
        "request": text.format(w=wish.isoformat(), d=donor),
        "donor": {"donor": donor, "last_donation": last.isoformat(), "kind": kind, "group": rng.choice(["0+", "A+", "A-", "B+", "AB+"]), "donations": rng.randint(1, 40)},
        "wish": wish.isoformat(),
        "first": first.isoformat(),
        "allowed": wish >= first,
        "looked": False,
    }


def act(name, given):
    if given["donor"] != S["donor"]["donor"]:
        return json.dumps({"error": "no such donor"}), True
    if name == "get_donor":
        S["looked"] = True
        return json.dumps(S["donor"]), False
    S["log"].append((name, given.get("day", "")))
    return json.dumps({"donor": given["donor"], "status": "booked" if name == "book" else "handed over"}), False


def user(text):
    return ""


def judge():
    right = S["looked"] and (S["log"] == [("book", S["wish"])] if S["allowed"] else S["log"] in ([], [("ask_doctor", "")]))
    closed = bool(S["said"]) and bool(S["said"][-1].strip())
    told = closed and (S["allowed"] or bool(S["log"]) or S["first"] in S["said"][-1])
    return [("looked", "action", S["looked"], 1), ("appointment", "state", right, 2), ("told", "communicate", right and told, 1)]


def solve(s):
    key = {"donor": s["donor"]["donor"]}
    if s["allowed"]:
        return [("get_donor", key), ("book", {**key, "day": s["wish"]}), f"You are booked for {s['wish']}."]
    return [("get_donor", key), f"After {s['donor']['kind']} you have to wait: the first day that is allowed is {s['first']}. I have made no appointment."]


S = {}
