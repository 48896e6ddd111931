"""Newspaper: work out and tell when a cancelled subscription ends."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

import re

POLICY = """You serve the subscribers of a newspaper. A subscription ends at the end of the month in which its period of notice runs out, counted from
today; a look at the subscription shows the period in weeks and the date of today. Cancel it with cancel, and tell the subscriber the day on which the last paper comes, as
year-month-day: for instance, six weeks from 2031-03-10 is 2031-04-21, so the last paper comes on 2031-04-30. A subscription that is cancelled already is left as it is: tell the
day that stands in it."""

TOOLS = [
    _t("get_subscription", "Show a subscription.", ["subscription"], subscription="string"),
    _t("cancel", "Cancel a subscription.", ["subscription"], subscription="string"),
]

DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]


def scene(seed):
    rng = random.Random(f"paper|{seed}")
    month, day = rng.randint(1, 8), rng.randint(1, 28)
    weeks = rng.choice([2, 4, 6, 8, 10])
    left, end = day + 7 * weeks, month
    while left > DAYS[end - 1]:
        left -= DAYS[end - 1]
        end += 1
    last = f"2031-{end:02d}-{DAYS[end - 1]:02d}"
    cancelled = seed % 3 == 0
    subscription = f"Z{rng.randint(100000, 999999)}"
    text = rng.choice(["Please cancel {z}. When does the last paper come?", "I no longer read the paper, {z}. Until when will it come?", "{z}: cancel it please, and tell me the last day."])
    return {
        "request": text.format(z=subscription),
        "record": {
            "subscription": subscription,
            "today": f"2031-{month:02d}-{day:02d}",
            "notice_weeks": weeks,
            "state": "cancelled" if cancelled else "running",
            "last_paper": last if cancelled else "open",
            "edition": rng.choice(["daily", "weekend", "digital"]),
        },
        "last": last,
        "looked": False,
    }


def act(name, given):
    if given["subscription"] != S["record"]["subscription"]:
        return json.dumps({"error": "no such subscription"}), True
    if name == "get_subscription":
        S["looked"] = True
        return json.dumps(S["record"]), False
    S["log"].append(name)
    return json.dumps({"subscription": given["subscription"], "state": "cancelled"}), False


def user(text):
    return ""


def judge():
    running = S["record"]["state"] == "running"
    right = S["looked"] and S["log"] == (["cancel"] if running else [])
    told = bool(S["said"]) and bool(re.search(r"2031-\d\d-\d\d", S["said"][-1]))
    return [("looked", "action", S["looked"], 1), ("subscription", "state", right, 2), ("told", "communicate", right and told, 1)]


def solve(s):
    key = {"subscription": s["record"]["subscription"]}
    if s["record"]["state"] == "cancelled":
        return [("get_subscription", key), f"It is cancelled already; the last paper comes on {s['last']}."]
    return [("get_subscription", key), ("cancel", key), f"It is cancelled. The last paper comes on {s['last']}."]


S = {}
