"""Books: put a wrong entry right by reversing it and posting it anew, or leave it to the accountant."""

import json
import random


def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You put wrong entries in the books right. Look the month's journal up. In a month that is open, reverse the wrong entry with reverse_entry, and post it anew to the right account with post_entry, with the same amount and a
text that names the supplier. In a month that is closed, change nothing and leave the entry to the accountant with ask_accountant. If the entry is in the right account already, change nothing and say so."""

TOOLS = [
    _t("get_journal", "Show the entries of a month.", ["month"], month="string"),
    _t("reverse_entry", "Reverse an entry.", ["entry"], entry="string"),
    _t("post_entry", "Post an entry.", ["month", "account", "cents", "text"], month="string", account="string", cents="integer", text="string"),
    _t("ask_accountant", "Leave an entry to the accountant.", ["entry", "note"], entry="string", note="string"),
]

NAMES = ["Weber", "Sommer", "Krause", "Bauer", "Huber", "Vogel", "Franke"]
ACCOUNTS = ["4100", "4200", "4300", "4400", "4500"]


def scene(seed):
    rng = random.Random(f"books|{seed}")
    kind = rng.choice(["open", "open", "closed", "right"])
    names = rng.sample(NAMES, rng.randint(3, 5))
    entries = [{"entry": f"E{number}", "account": rng.choice(ACCOUNTS), "cents": rng.randint(1000, 90000), "text": f"Invoice {name}"} for name, number in zip(names, rng.sample(range(1000, 9999), len(names)))]
    meant = rng.choice(entries)
    name = meant["text"].split()[1]
    account = meant["account"] if kind == "right" else rng.choice([one for one in ACCOUNTS if one != meant["account"]])
    month = f"{rng.randint(2030, 2034)}-{rng.randint(1, 12):02d}"
    closed = kind == "closed" or (kind == "right" and rng.random() < 0.5)
    text = rng.choice(["The invoice of {n} in {m} belongs to account {a}, please see to it.", "{n} of {m}: this should be in {a}. Can you check and correct it?", "I think that what {n} sent us in {m} is in the wrong account. It must be in {a}."])
    return {"request": text.format(n=name, m=month, a=account), "kind": kind, "month": month, "closed": closed, "entries": entries, "meant": meant, "name": name, "account": account, "looked": False}


def act(name, given):
    if "month" in given and given["month"] != S["month"]:
        return json.dumps({"error": "no such month"}), True
    if name == "get_journal":
        S["looked"] = True
        return json.dumps({"month": S["month"], "status": "closed" if S["closed"] else "open", "entries": S["entries"]}), False
    if name == "post_entry":
        if given["account"] not in ACCOUNTS:
            return json.dumps({"error": "no such account"}), True
        if S["closed"]:
            return json.dumps({"error": "the month is closed"}), True
        S["log"].append((name, given["account"], given["cents"], S["name"].lower() in given["text"].lower(), S["looked"]))
        return json.dumps({"status": "posted"}), False
    if given["entry"] not in [one["entry"] for one in S["entries"]]:
        return json.dumps({"error": "no such entry"}), True
    if name == "reverse_entry" and S["closed"]:
        return json.dumps({"error": "the month is closed"}), True
    S["log"].append((name, given["entry"], S["looked"]))
    return json.dumps({"entry": given["entry"], "status": "reversed" if name == "reverse_entry" else "left to the accountant"}), False


def judge():
    entry = S["meant"]["entry"]
    wanted = {
        "open": [("post_entry", S["account"], S["meant"]["cents"], True, True), ("reverse_entry", entry, True)],
        "closed": [("ask_accountant", entry, True)],
        "right": [],
    }[S["kind"]]
    right = S["looked"] and sorted(S["log"]) == wanted
    return [("looked", "action", S["looked"], 1), ("done", "state", right, 3), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    look, entry = ("get_journal", {"month": s["month"]}), s["meant"]["entry"]
    if s["kind"] == "right":
        return [look, "It is in the right account already, so I have changed nothing."]
    if s["kind"] == "closed":
        return [look, ("ask_accountant", {"entry": entry, "note": f"It belongs to {s['account']}."}), "The month is closed, so the accountant will see to it."]
    anew = {"month": s["month"], "account": s["account"], "cents": s["meant"]["cents"], "text": f"Invoice {s['name']}"}
    return [look, ("reverse_entry", {"entry": entry}), ("post_entry", anew), "I have put it right."]


def user(text):
    return ""


S = {}
