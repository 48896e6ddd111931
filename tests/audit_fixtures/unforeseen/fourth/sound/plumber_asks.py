"""Plumber: what the request leaves out is asked for, and the answer decides."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You take calls for a plumber. Ask whoever calls whether water is running out. If it is, send somebody at once with send_now. If it is not, put the call on tomorrow's list with put_on_list.
Send nobody before you know."""

TOOLS = [
    _t("get_caller", "Show who calls.", ["caller"], caller="string"),
    _t("send_now", "Send a plumber at once.", ["caller"], caller="string"),
    _t("put_on_list", "Put a call on the list for tomorrow.", ["caller"], caller="string"),
]


def scene(seed):
    rng = random.Random(f"plumber|{seed}")
    caller, runs = f"C{rng.randint(10000, 99999)}", rng.random() < 0.5
    text = rng.choice(["The pipe in my kitchen is broken. I am {c}.", "{c} here, my bath is not as it should be.", "Something is wrong with a tap, can you help {c}?"])
    answer = rng.choice(["Yes, it is all over the floor.", "Yes, a lot of it."] if runs else ["No, it is dry.", "No, not a drop."])
    return {"request": text.format(c=caller), "caller": caller, "runs": runs, "answer": answer, "asked": False, "street": rng.randint(1, 99)}


def act(name, given):
    if given["caller"] != S["caller"]:
        return json.dumps({"error": "no such caller"}), True
    if name == "get_caller":
        return json.dumps({"caller": S["caller"], "house": S["street"]}), False
    S["log"].append((name, S["asked"]))
    return json.dumps({"caller": S["caller"], "status": "noted"}), False


def user(text):
    if S["log"] or S["asked"] or "?" not in text or "water" not in text.lower():
        return ""
    S["asked"] = True
    return S["answer"]


def judge():
    right = S["log"] == [("send_now" if S["runs"] else "put_on_list", True)]
    return [("asked", "communicate", S["asked"], 1), ("sent", "state", right, 2), ("told", "communicate", right and len(S["said"]) > 1 and bool(S["said"][-1].strip()), 1)]


def solve(s):
    name = "send_now" if s["runs"] else "put_on_list"
    return ["Is water running out?", (name, {"caller": s["caller"]}), "Somebody is on the way." if s["runs"] else "Somebody will come tomorrow."]


S = {}
