"""Servers: retire one step by step, in the order that its state demands."""

import json
import random


def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You retire servers. Look the server up first. If it runs the primary of a database, promote the replica with promote before anything else. Then drain the server, then take a snapshot of each of its volumes, and shut it down
last. A server that is on hold is not retired: touch nothing and say so."""

TOOLS = [
    _t("get_server", "Show a server.", ["server"], server="string"),
    _t("promote", "Make the replica on a server the primary.", ["server"], server="string"),
    _t("drain", "Move what runs on a server elsewhere.", ["server"], server="string"),
    _t("snapshot", "Take a snapshot of a volume.", ["volume"], volume="string"),
    _t("shut_down", "Shut a server down.", ["server"], server="string"),
]


def scene(seed):
    rng = random.Random(f"server|{seed}")
    kind = rng.choice(["plain", "primary", "hold"])
    server, other = (f"srv-{number}" for number in rng.sample(range(100, 999), 2))
    volumes = [f"vol-{number}" for number in rng.sample(range(1000, 9999), rng.randint(1, 3))]
    primary = kind == "primary" or (kind == "hold" and rng.random() < 0.5)
    record = {"server": server, "database": "primary" if primary else rng.choice(["none", "replica"]), "replica_on": other if primary else None, "volumes": volumes, "on_hold": kind == "hold"}
    text = rng.choice(["Please retire {s}.", "{s} is old, take it out of service.", "We do not need {s} any longer. Can you retire it?"])
    return {"request": text.format(s=server), "record": record, "other": other, "looked": False}


def act(name, given):
    record = S["record"]
    if name == "snapshot":
        if given["volume"] not in record["volumes"]:
            return json.dumps({"error": "no such volume"}), True
        S["log"].append((name, given["volume"], S["looked"]))
        return json.dumps({"volume": given["volume"], "status": "snapshot taken"}), False
    if given["server"] not in (record["server"], S["other"]):
        return json.dumps({"error": "no such server"}), True
    if name == "get_server":
        if given["server"] == S["other"]:
            return json.dumps({"server": S["other"], "database": "replica" if record["replica_on"] else "none", "replica_on": None, "volumes": [], "on_hold": False}), False
        S["looked"] = True
        return json.dumps(record), False
    S["log"].append((name, given["server"], S["looked"]))
    return json.dumps({"server": given["server"], "status": {"promote": "primary", "drain": "drained", "shut_down": "off"}[name]}), False


def judge():
    record, server = S["record"], S["record"]["server"]
    first = [("promote", record["replica_on"], True)] if record["replica_on"] else []
    first.append(("drain", server, True))
    shots = S["log"][len(first) : -1]
    whole = S["log"][: len(first)] == first and sorted(shots) == sorted(("snapshot", one, True) for one in record["volumes"]) and S["log"][-1] == ("shut_down", server, True)
    right = S["looked"] and (not S["log"] if record["on_hold"] else whole)
    return [("looked", "action", S["looked"], 1), ("done", "state", right, 4), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    record, server = s["record"], s["record"]["server"]
    look = ("get_server", {"server": server})
    if record["on_hold"]:
        return [look, "It is on hold, so I have left it as it is."]
    first = [("promote", {"server": record["replica_on"]})] if record["replica_on"] else []
    shots = [("snapshot", {"volume": one}) for one in record["volumes"]]
    return [look, *first, ("drain", {"server": server}), *shots, ("shut_down", {"server": server}), "It is out of service."]


def user(text):
    return ""


S = {}
