"""Railway: work out whether a connection can be reached before a seat is rebooked."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

POLICY = """You help railway passengers who fear to miss a connection. It is missed if less time than the station's time for changing is left between the
expected arrival of the first train and the departure of the second one. If it is missed, rebook the passenger with rebook to the next train that is shown; otherwise leave the
booking as it is and tell the passenger so. Nobody is rebooked who can make it."""

TOOLS = [
    _t("get_booking", "Show a booking with both trains.", ["booking"], booking="string"),
    _t("get_train", "Show a train at the station where one changes.", ["train"], train="string"),
    _t("get_station", "Show a station.", ["station"], station="string"),
    _t("rebook", "Move the second part of a booking to another train.", ["booking", "train"], booking="string", train="string"),
]

TOWNS = ["Aldern", "Brunnfeld", "Castorp", "Dornau", "Eschbach", "Falkenau"]


def _clock(minutes):
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def scene(seed):
    rng = random.Random(f"connection|{seed}")
    change = rng.choice([4, 6, 8, 10, 12])
    missed = rng.random() < 0.5
    left = rng.randint(-5, change - 1) if missed else rng.randint(change, change + 9)
    arrives, leaves = rng.randint(420, 1200), 0
    leaves = arrives + left
    late = rng.randint(3, 25)
    first, second, other = (f"{kind} {number}" for kind, number in zip(["IR", "RE", "RE"], rng.sample(range(100, 990), 3)))
    start, station, end = rng.sample(TOWNS, 3)
    booking = f"B{rng.randint(100000, 999999)}"
    text = rng.choice(["My train is late, do I make my connection? {b}", "{b}: will I reach the second train?", "I am on a late train, booking {b}. Please help me with the connection."])
    return {
        "request": text.format(b=booking),
        "booking": {"booking": booking, "from": start, "change_at": station, "to": end, "first": first, "second": second, "next_after_second": other},
        "trains": {
            first: {"train": first, "planned_arrival": _clock(arrives - late), "expected_arrival": _clock(arrives)},
            second: {"train": second, "departure": _clock(leaves)},
            other: {"train": other, "departure": _clock(leaves + 60)},
        },
        "station": {"station": station, "minutes_for_changing": change, "tracks": rng.randint(3, 12)},
        "left": left,
        "missed": left < change,
        "seen": set(),
    }


def act(name, given):
    if name == "get_train":
        if given["train"] not in S["trains"]:
            return json.dumps({"error": "no such train"}), True
        S["seen"].add(given["train"])
        return json.dumps(S["trains"][given["train"]]), False
    if name == "get_station":
        if given["station"] != S["station"]["station"]:
            return json.dumps({"error": "no such station"}), True
        S["seen"].add("station")
        return json.dumps(S["station"]), False
    if given["booking"] != S["booking"]["booking"]:
        return json.dumps({"error": "no such booking"}), True
    if name == "get_booking":
        return json.dumps(S["booking"]), False
    if given["train"] not in S["trains"]:
        return json.dumps({"error": "no such train"}), True
    S["log"].append(given["train"])
    return json.dumps({"booking": given["booking"], "second": given["train"]}), False


def user(text):
    return ""


def judge():
    booking = S["booking"]
    looked = {booking["first"], booking["second"], "station"} <= S["seen"]
    right = looked and S["log"] == ([booking["next_after_second"]] if S["missed"] else [])
    return [("looked", "action", looked, 1), ("booking", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    one = s["booking"]
    looks = [("get_booking", {"booking": one["booking"]}), ("get_train", {"train": one["first"]}), ("get_train", {"train": one["second"]}), ("get_station", {"station": one["change_at"]})]
    need = s["station"]["minutes_for_changing"]
    if s["missed"]:
        return [*looks, ("rebook", {"booking": one["booking"], "train": one["next_after_second"]}), f"You cannot make it: a change takes {need} minutes. You have a seat on {one['next_after_second']} now."]
    return [*looks, "You can make it, there is enough time for the change. I leave your booking as it is."]


S = {}
