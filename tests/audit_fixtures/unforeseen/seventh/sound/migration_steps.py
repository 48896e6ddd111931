"""Databases: the steps of a release in their order, those that are not needed left out."""

import json
import random


def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You bring releases to databases. Look at the release and at its database first.

A release is applied with apply_release. Where it removes something and the database's last backup is older than 24 hours, make a backup before. Where the database has replicas, replication is paused before the release is applied and resumed afterwards. Do nothing of this without need: backups and pauses disturb others. A database that is frozen gets no release at all; tell the user so."""

TOOLS = [
    _t("get_release", "Show a release.", ["release"], release="string"),
    _t("get_database", "Show a database.", ["database"], database="string"),
    _t("make_backup", "Back a database up.", ["database"], database="string"),
    _t("pause_replication", "Pause the replication of a database.", ["database"], database="string"),
    _t("resume_replication", "Resume the replication of a database.", ["database"], database="string"),
    _t("apply_release", "Apply a release to its database.", ["release"], release="string"),
]


def scene(seed):
    rng = random.Random(f"release {seed}")
    frozen, removes, old, replicas = rng.random() < 0.3, rng.random() < 0.65, rng.random() < 0.7, rng.choice([0, 0, 1, 2, 3])
    release, database = f"r{rng.randint(10, 99)}.{rng.randint(0, 99)}", f"{rng.choice(['orders', 'people', 'stock', 'mail', 'maps'])}_{rng.randint(10, 99)}"
    adds, drops = ["add column colour", "add index on name", "add table parts"], ["drop column fax", "drop table old_prices", "delete rows before 2019"]
    changes = [rng.choice(adds), *([rng.choice(drops)] if removes else [rng.choice(adds)])]
    rng.shuffle(changes)
    shown = {"release": {"release": release, "database": database, "changes": changes}, "database": {"database": database, "frozen": frozen, "replicas": replicas, "hours_since_backup": rng.randint(25, 90) if old else rng.randint(1, 24)}}
    steps = ["apply_release"]
    if replicas:
        steps = ["pause_replication", *steps, "resume_replication"]
    if removes and old:
        steps = ["make_backup", *steps]
    text = rng.choice(["Please bring {} out.", "{} is ready to go.", "Can {} be applied today?", "Would you roll out release {}?"])
    return {"request": text.format(release), "shown": shown, "steps": [] if frozen else steps, "seen": set(), "blind": False}


def act(name, given):
    kind = "release" if "release" in given else "database"
    if given[kind] != S["shown"][kind][kind]:
        return json.dumps({"error": f"no such {kind}"}), True
    if name.startswith("get_"):
        S["seen"].add(kind)
        return json.dumps(S["shown"][kind]), False
    S["blind"] = S["blind"] or len(S["seen"]) < 2
    S["log"].append(name)
    return json.dumps({"done": name}), False


def user(text):
    return ""


def judge():
    wanted, done = S["steps"], S["log"]
    looked = "database" in S["seen"] and (len(S["seen"]) == 2 or not wanted) and not (S["blind"] and done)
    may_be = [wanted]
    if wanted[:2] == ["make_backup", "pause_replication"]:  # a backup may be made while replication is paused
        may_be.append(["pause_replication", "make_backup", *wanted[2:]])
    right = looked and done in may_be and S["over"]
    told = right and bool(S["said"] and S["said"][-1].strip())
    return [("looked first", "action", looked, 1), ("the steps", "state", right, 3), ("told", "communicate", told, 1)]


def solve(s):
    release, database = s["shown"]["release"]["release"], s["shown"]["database"]["database"]
    turns = [("get_release", {"release": release}), ("get_database", {"database": database})]
    turns += [(one, {"release": release} if one == "apply_release" else {"database": database}) for one in s["steps"]]
    return [*turns, "The release is out." if s["steps"] else "That database is frozen, so it gets no release for now."]


S = {}
