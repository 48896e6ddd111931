"""Town office: look up today's date before a deadline is judged."""

import datetime
import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

POLICY = """You take objections to notices of the town. An objection is in time until the 30th day after the date of the notice, that day
included. Enter it with enter_objection if it is in time; otherwise use reject_objection. Never guess the date: get_today shows it."""

TOOLS = [
    _t("get_today", "Show today's date.", []),
    _t("get_notice", "Show a notice.", ["notice_id"], notice_id="string"),
    _t("enter_objection", "Enter an objection to a notice.", ["notice_id"], notice_id="string"),
    _t("reject_objection", "Reject an objection as too late.", ["notice_id"], notice_id="string"),
]

TODAY = datetime.date(2031, 3, 17)


def scene(seed):
    rng = random.Random(f"deadline|{seed}")
    late = seed % 2 == 0
    ago = rng.randint(31, 58) if late else rng.randint(2, 30)
    notice = f"N{rng.randint(100000, 999999)}"
    text = rng.choice(["I object to notice {n}.", "I do not agree with {n}. Please enter my objection.", "My objection is to {n}, about the fee."])
    return {
        "request": text.format(n=notice),
        "notice": {"notice_id": notice, "date": (TODAY - datetime.timedelta(days=ago)).isoformat(), "about": rng.choice(["waste fee", "dog tax", "parking"]), "amount": rng.randint(20, 300)},
        "late": late,
        "looked": False,
    }


def act(name, given):
    if name == "get_today":
        return json.dumps({"today": TODAY.isoformat()}), False
    if given["notice_id"] != S["notice"]["notice_id"]:
        return json.dumps({"error": "no such notice"}), True
    if name == "get_notice":
        S["looked"] = True
        return json.dumps(S["notice"]), False
    S["log"].append(name)
    return json.dumps({"notice_id": given["notice_id"], "status": "recorded"}), False


def user(text):
    return ""


def judge():
    want = "reject_objection" if S["late"] else "enter_objection"
    right = S["looked"] and S["log"] == [want]
    return [("looked", "action", S["looked"], 1), ("objection", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    key = {"notice_id": s["notice"]["notice_id"]}
    looks = [("get_today", {}), ("get_notice", key)]
    if s["late"]:
        return [*looks, ("reject_objection", key), "The 30 days are over, so the objection is too late."]
    return [*looks, ("enter_objection", key), "Your objection is in time and has been entered."]


S = {}
