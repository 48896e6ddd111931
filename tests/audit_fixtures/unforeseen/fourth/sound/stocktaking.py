"""Stocktaking: a long episode, every bin has to be opened before the sum is booked."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You count the stock of a screw factory. List the bins of an article, open each of them, and book the sum with book_count. A bin that is under repair counts as empty. Tell the sum."""

TOOLS = [
    _t("list_bins", "Show the bins of an article.", ["article"], article="string"),
    _t("get_bin", "Show a bin.", ["bin_id"], bin_id="string"),
    _t("book_count", "Book the count of an article.", ["article", "pieces"], article="string", pieces="integer"),
]


def scene(seed):
    rng = random.Random(f"stock|{seed}")
    article = f"S{rng.randint(10000, 99999)}"
    bins = {f"B{n}": {"pieces": rng.randint(10, 900), "under_repair": rng.random() < 0.3} for n in rng.sample(range(1000, 9999), rng.randint(5, 8))}
    total = sum(one["pieces"] for one in bins.values() if not one["under_repair"])
    text = rng.choice(["Please count {a}.", "How much of {a} is there? Book it, too.", "{a} has to be counted and booked."])
    return {"request": text.format(a=article), "article": article, "bins": bins, "total": total, "opened": set()}


def act(name, given):
    if name == "get_bin":
        if given["bin_id"] not in S["bins"]:
            return json.dumps({"error": "no such bin"}), True
        S["opened"].add(given["bin_id"])
        return json.dumps({"bin_id": given["bin_id"], **S["bins"][given["bin_id"]]}), False
    if given["article"] != S["article"]:
        return json.dumps({"error": "no such article"}), True
    if name == "list_bins":
        return json.dumps({"article": S["article"], "bins": list(S["bins"])}), False
    S["log"].append((given["pieces"], S["opened"] == set(S["bins"])))
    return json.dumps({"article": S["article"], "status": "booked"}), False


def user(text):
    return ""


def judge():
    opened = S["opened"] == set(S["bins"])
    right = S["log"] == [(S["total"], True)]
    said = S["said"][-1] if S["said"] else ""
    return [("opened", "action", opened, 1), ("booked", "state", right, 2), ("told", "communicate", right and str(S["total"]) in said.replace(",", ""), 1)]


def solve(s):
    key = {"article": s["article"]}
    opened = [("get_bin", {"bin_id": one}) for one in s["bins"]]
    return [("list_bins", key), *opened, ("book_count", {**key, "pieces": s["total"]}), f"There are {s['total']} pieces; that is booked."]


S = {}
