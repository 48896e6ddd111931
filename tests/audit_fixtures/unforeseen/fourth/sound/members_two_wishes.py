"""Sports club: two wishes in one request, and either may be met first."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You look after the members of a sports club. Look a member up before anything is changed. A member who has paid may change the course with set_course and the locker with set_locker, in
whatever order. For a member with open fees nothing is changed: tell them the fee first has to be paid."""

COURSES = ["rowing", "fencing", "judo", "yoga"]
TOOLS = [
    _t("get_member", "Show a member.", ["member"], member="string"),
    _t("set_course", "Change the course of a member.", ["member", "course"], member="string", course={"type": "string", "enum": COURSES}),
    _t("set_locker", "Give a member another locker.", ["member", "locker"], member="string", locker="integer"),
]


def scene(seed):
    rng = random.Random(f"club|{seed}")
    member, course, locker = f"M{rng.randint(10000, 99999)}", rng.choice(COURSES), rng.randint(1, 300)
    fee = rng.choice([0, 0, 0, 12, 30, 45]) if rng.random() < 0.8 else rng.randint(5, 60)
    text = rng.choice(["I am {m}: put me into {c} and give me locker {l}.", "{m} here, I would like locker {l}, and {c} as my course.", "Locker {l} and the {c} course for {m}, please."])
    record = {"member": member, "since": rng.randint(2001, 2030), "open_fees": fee, "courses": rng.randint(1, 4)}
    return {"request": text.format(m=member, c=course, l=locker), "member": member, "record": record, "course": course, "locker": locker, "looked": False}


def act(name, given):
    if given["member"] != S["member"]:
        return json.dumps({"error": "no such member"}), True
    if name == "get_member":
        S["looked"] = True
        return json.dumps(S["record"]), False
    S["log"].append((name, given.get("course") or given.get("locker"), S["looked"]))
    return json.dumps({"member": S["member"], "status": "changed"}), False


def user(text):
    return ""


def judge():
    wanted = {("set_course", S["course"], True), ("set_locker", S["locker"], True)} if not S["record"]["open_fees"] else set()
    right = S["looked"] and set(S["log"]) == wanted and len(S["log"]) == len(wanted)
    return [("looked", "action", S["looked"], 1), ("changed", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    key = {"member": s["member"]}
    if s["record"]["open_fees"]:
        return [("get_member", key), "There are open fees, please pay them first; nothing was changed."]
    return [("get_member", key), ("set_locker", {**key, "locker": s["locker"]}), ("set_course", {**key, "course": s["course"]}), "Both is done."]


S = {}
