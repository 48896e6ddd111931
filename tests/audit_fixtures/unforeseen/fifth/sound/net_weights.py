"""A store by weight: what a crate weighs empty is taken off, unless the scale is not to be trusted."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You book what comes into a store by weight. Weigh the crate, look up what it weighs empty, and book the difference in kilograms with book_weight. Where the scale's seal has run out (today is 2026-03-01),
book nothing and say so."""

TOOLS = [
    _t("read_scale", "Show what the scale says of a crate, and until when it is sealed.", ["crate"], crate="string"),
    _t("get_crate", "Show a crate: its goods and what it weighs empty.", ["crate"], crate="string"),
    _t("book_weight", "Book kilograms of goods.", ["crate", "kilograms"], crate="string", kilograms="number"),
]


def scene(seed):
    rng = random.Random(f"weights|{seed}")
    crate, gross, tare = f"K{rng.randint(1000, 9999)}", rng.randint(2000, 9000), rng.randint(110, 390)
    expired = rng.random() < 0.4
    sealed = f"2026-0{rng.randint(1, 2)}-{rng.randint(1, 28):02}" if expired else f"2026-{rng.randint(4, 12):02}-{rng.randint(1, 28):02}"
    text = rng.choice(["{c} has come in.", "Please take {c} in.", "Here is {c}; what does it hold?"])
    return {"request": text.format(c=crate), "crate": crate, "gross": gross, "tare": tare, "sealed": sealed, "expired": expired, "goods": rng.choice(["plums", "quinces", "walnuts", "beets"]), "weighed": False}


def act(name, given):
    if given["crate"] != S["crate"]:
        return json.dumps({"error": "no such crate"}), True
    if name == "read_scale":
        S["weighed"] = True
        return json.dumps({"crate": S["crate"], "kilograms": S["gross"] / 10, "sealed_until": S["sealed"]}), False
    if name == "get_crate":
        return json.dumps({"crate": S["crate"], "goods": S["goods"], "empty_kilograms": S["tare"] / 10}), False
    S["log"].append((given["kilograms"], S["weighed"]))
    return json.dumps({"crate": S["crate"], "status": "booked"}), False


def judge():
    net = (S["gross"] - S["tare"]) / 10
    right = S["weighed"] and not S["log"] if S["expired"] else len(S["log"]) == 1 and abs(S["log"][0][0] - net) < 0.051 and S["log"][0][1]
    return [("weighed", "action", S["weighed"], 1), ("booked", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    key = {"crate": s["crate"]}
    if s["expired"]:
        return [("read_scale", key), "The seal of the scale has run out, so I have booked nothing."]
    return [("read_scale", key), ("get_crate", key), ("book_weight", {**key, "kilograms": (s["gross"] - s["tare"]) / 10}), "It is booked."]


def user(text):
    return ""


S = {}
