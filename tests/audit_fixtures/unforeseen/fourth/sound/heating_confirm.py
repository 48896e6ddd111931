"""Heating: read after a change whether it was taken, and set it again where it was not."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You look after the heating of rented flats. Set the temperature that the tenant wants with set_heating. The valves do not always answer: read with read_valve afterwards whether it was
taken. Where it was not, set it once more. Where it still was not, call the fitter with call_fitter. Then tell the tenant."""

TOOLS = [
    _t("read_valve", "Show what a valve is set to.", ["flat"], flat="string"),
    _t("set_heating", "Set the temperature of a flat.", ["flat", "celsius"], flat="string", celsius="integer"),
    _t("call_fitter", "Send the fitter to a flat.", ["flat"], flat="string"),
]


def scene(seed):
    rng = random.Random(f"heating|{seed}")
    flat, wish, was = f"W{rng.randint(1000, 9999)}", rng.randint(17, 23), rng.randint(12, 16)
    text = rng.choice(["{f} is cold, please make it {w} degrees.", "Could you set {f} to {w}?", "I live in {f} and want {w} degrees."])
    return {"request": text.format(f=flat, w=wish), "flat": flat, "wish": wish, "now": was, "deaf": seed % 3, "read": False}


def act(name, given):
    if given["flat"] != S["flat"]:
        return json.dumps({"error": "no such flat"}), True
    if name == "read_valve":
        S["read"] = bool(S["log"])
        S["log"] += ["read"] * (S["log"][-1:] not in ([], ["read"]))
        return json.dumps({"flat": S["flat"], "set_to": S["now"]}), False
    if name == "call_fitter":
        S["log"].append("fitter")
        return json.dumps({"flat": S["flat"], "status": "sent"}), False
    S["log"].append(given["celsius"])
    if S["log"].count(S["wish"]) > S["deaf"]:
        S["now"] = given["celsius"]
    return json.dumps({"flat": S["flat"], "status": "passed on"}), False


def user(text):
    return ""


def judge():
    wanted = [[S["wish"], "read"], [S["wish"], "read"] * 2, [S["wish"], "read"] * 2 + ["fitter"]][S["deaf"]]
    right = S["log"] == wanted
    return [("read", "action", S["read"], 1), ("set", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    key = {"flat": s["flat"]}
    pair = [("set_heating", {**key, "celsius": s["wish"]}), ("read_valve", key)]
    if s["deaf"] == 2:
        return [*pair, *pair, ("call_fitter", key), "The valve does not answer, the fitter will come."]
    return [*pair * (s["deaf"] + 1), f"It is set to {s['wish']} degrees."]


S = {}
