"""A club: a notice to all who practise a sport, from a list of several pages, without those who have left or want none."""

import json
import random


def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You send notices to the members of a club. list_members shows five members on a page, and how many pages there are. A notice to a sport goes to every member who practises it, except those who have left the club and
those who do not want notices. Send it once, to all of them together, with send_notice. If nobody remains, send nothing and say so."""

TOOLS = [
    _t("list_members", "Show one page of the list of members.", ["page"], page="integer"),
    _t("send_notice", "Send a notice to members.", ["notice", "members"], notice="string", members={"type": "array", "items": {"type": "string"}}),
]

SPORTS = ["rowing", "tennis", "judo"]
NAMES = ["Adler", "Brandt", "Conrad", "Dietz", "Engel", "Falk", "Gruber", "Hartl", "Immel", "Jahn", "Kremer", "Lorenz", "Moser", "Nagel", "Ott", "Pohl", "Quast", "Reuter", "Stark", "Thoma"]


def scene(seed):
    rng = random.Random(f"notice|{seed}")
    sport = rng.choice(SPORTS)
    empty = rng.random() < 0.25
    rows = []
    for name, number in zip(rng.sample(NAMES, rng.randint(6, 19)), rng.sample(range(1000, 9999), 20)):
        left, wants = rng.random() < 0.25, rng.random() < 0.75
        other = rng.choice(SPORTS)
        if empty and other == sport and wants and not left:
            left, wants = rng.choice([(True, True), (False, False), (True, False)])
        rows.append({"member": f"M{number}", "name": name, "sport": other, "left": left, "wants_notices": wants})
    if not empty:
        rows[rng.randrange(len(rows))].update(sport=sport, left=False, wants_notices=True)
    to = [one["member"] for one in rows if one["sport"] == sport and not one["left"] and one["wants_notices"]]
    notice = f"N{rng.randint(100, 999)}"
    text = rng.choice(["Please send notice {n} to all who do {s}.", "Notice {n} has to go to our {s} members.", "{n} is for everybody in {s}, send it today."])
    pages = [rows[start : start + 5] for start in range(0, len(rows), 5)]
    return {"request": text.format(n=notice, s=sport), "notice": notice, "pages": pages, "to": to, "seen": set()}


def act(name, given):
    if name == "list_members":
        if not 1 <= given["page"] <= len(S["pages"]):
            return json.dumps({"error": "no such page"}), True
        S["seen"].add(given["page"])
        return json.dumps({"page": given["page"], "pages": len(S["pages"]), "members": S["pages"][given["page"] - 1]}), False
    known = {one["member"] for page in S["pages"] for one in page}
    if given["notice"] != S["notice"]:
        return json.dumps({"error": "no such notice"}), True
    if not given["members"] or any(not isinstance(one, str) or one not in known for one in given["members"]):
        return json.dumps({"error": "no such member"}), True
    S["log"].append((sorted(given["members"]), len(S["seen"])))
    return json.dumps({"notice": S["notice"], "sent_to": len(given["members"])}), False


def judge():
    whole = len(S["seen"]) == len(S["pages"])
    right = whole and S["log"] == ([(sorted(S["to"]), len(S["pages"]))] if S["to"] else [])
    return [("read", "action", whole, 1), ("sent", "state", right, 3), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    looks = [("list_members", {"page": number}) for number in range(1, len(s["pages"]) + 1)]
    if not s["to"]:
        return [*looks, "There is nobody to whom it may be sent, so I have sent nothing."]
    return [*looks, ("send_notice", {"notice": s["notice"], "members": s["to"]}), f"I have sent it to {len(s['to'])} members."]


def user(text):
    return ""


S = {}
