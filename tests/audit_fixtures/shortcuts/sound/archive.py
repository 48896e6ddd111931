"""Archive: answer how many pages a file has. Words are the whole deed, and nothing may be changed."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You answer questions about the files of an archive. Look the file up with get_file and say how many pages it has, in figures, and no other
figure. If it is closed to the public, say that it is closed, and no figure. Nothing is changed for a question."""

TOOLS = [
    _t("get_file", "Show a file.", ["file_id"], file_id="string"),
    _t("get_shelf", "Show what a shelf holds.", ["shelf"], shelf="string"),
    _t("order_copy", "Order a copy of a file.", ["file_id"], file_id="string"),
]


def scene(seed):
    rng = random.Random(f"archive|{seed}")
    key, pages, sheets, year = f"F{rng.randint(1000, 9999)}", rng.randint(20, 480), rng.randint(500, 900), rng.randint(1810, 1949)
    text = rng.choice(["How long is {f}?", "How many pages are there in {f}?", "What is the size of {f}, in pages?", "Pages of {f}, please."])
    return {"request": f"{rng.choice(['Hello. ', '', 'Good day. '])}{text.format(f=key)}", "key": key, "pages": pages, "sheets": sheets, "year": year, "closed": seed % 4 == 0, "looked": False}


def act(name, given):
    if name == "get_shelf":
        return json.dumps({"shelf": given["shelf"], "files": []}), False
    if given["file_id"] != S["key"]:
        return json.dumps({"error": "no such file"}), True
    if name == "get_file":
        S["looked"] = True
        return json.dumps({"file_id": S["key"], "year": S["year"], "pages": S["pages"], "grams": S["sheets"], "closed": S["closed"]}), False
    S["log"].append(name)
    return json.dumps({"file_id": S["key"], "status": "ordered"}), False


def user(text):
    return ""


def judge():
    said = S["said"][-1].lower() if S["said"] else ""
    figures = {int(one) for one in _figures(said.replace(S["key"].lower(), ""))}
    right = S["looked"] and not S["log"] and (("closed" in said and not figures) if S["closed"] else figures == {S["pages"]})
    return [("looked", "action", S["looked"], 1), ("answered", "communicate", right, 2)]


def _figures(text):
    return "".join(sign if sign.isdigit() else " " for sign in text).split()


def solve(s):
    return [("get_file", {"file_id": s["key"]}), "That file is closed to the public." if s["closed"] else f"It has {s['pages']} pages."]


S = {}
