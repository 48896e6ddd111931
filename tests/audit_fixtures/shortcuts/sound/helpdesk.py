"""Help desk: find the ticket that is meant, open it, and give it the priority that its damage asks for."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You sort the tickets of a help desk. Open the ticket that is meant, and set its priority by what it says: 'high' if it says that work stands still,
'low' if it is a question, 'normal' otherwise. Users name the room; list_tickets shows which tickets a room has, and get_ticket what a ticket is about. Every
ticket gets its priority once, and no other ticket is touched."""

LEVELS = {"work stands still": "high", "a question": "low", "it is slow": "normal"}
TOOLS = [
    _t("list_tickets", "Show the tickets of a room.", ["room"], room="string"),
    _t("get_ticket", "Show a ticket.", ["ticket_id"], ticket_id="string"),
    _t("set_priority", "Set the priority of a ticket.", ["ticket_id", "priority"], ticket_id="string", priority={"type": "string", "enum": sorted(LEVELS.values())}),
    _t("close_ticket", "Close a ticket.", ["ticket_id"], ticket_id="string"),
]
DEVICES = ["printer", "screen", "phone", "scanner", "router", "camera"]


def scene(seed):
    rng = random.Random(f"desk|{seed}")
    keys, devices = [f"TK{n}" for n in rng.sample(range(1000, 9999), 3)], rng.sample(DEVICES, 3)
    tickets = {k: {"ticket_id": k, "device": d, "says": rng.choice(sorted(LEVELS)), "day": rng.randint(1, 28)} for k, d in zip(keys, devices)}
    meant, room = rng.choice(keys), f"{rng.choice('ABCDEF')}-{rng.randint(100, 999)}"
    tickets[meant]["says"] = sorted(LEVELS)[seed % 3]
    text = rng.choice(["It is about the {d} in {r}.", "Please sort what we wrote of the {d} in room {r}.", "Room {r}, the {d}: how urgent is it?"])
    return {"request": text.format(d=tickets[meant]["device"], r=room), "room": room, "meant": meant, "tickets": tickets, "seen": set()}


def act(name, given):
    if name == "list_tickets":
        if given["room"] != S["room"]:
            return json.dumps({"error": "no such room"}), True
        return json.dumps([{"ticket_id": k, "device": t["device"]} for k, t in sorted(S["tickets"].items())]), False
    ticket = S["tickets"].get(given["ticket_id"])
    if ticket is None:
        return json.dumps({"error": "no such ticket"}), True
    if name == "get_ticket":
        S["seen"].add(ticket["ticket_id"])
        return json.dumps(ticket), False
    S["log"].append((name, ticket["ticket_id"], given.get("priority"), ticket["ticket_id"] in S["seen"]))
    return json.dumps({"ticket_id": ticket["ticket_id"], "status": "set"}), False


def user(text):
    return ""


def judge():
    level = LEVELS[S["tickets"][S["meant"]]["says"]]
    opened = S["meant"] in S["seen"]
    right = opened and S["log"] == [("set_priority", S["meant"], level, True)]
    return [("opened", "action", opened, 1), ("sorted", "state", right, 2), ("told", "communicate", right and bool(S["said"]) and level in S["said"][-1].lower(), 1)]


def solve(s):
    level = LEVELS[s["tickets"][s["meant"]]["says"]]
    key = {"ticket_id": s["meant"]}
    return [("list_tickets", {"room": s["room"]}), ("get_ticket", key), ("set_priority", {**key, "priority": level}), f"Its priority is {level}."]


S = {}
