"""School office: answer every part of a request."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

POLICY = """You run the office of a school. Parents often ask for two things at once. Do and answer every part of what they ask before you close: a part
that is left out counts as not served. Departure times stand in the bus plan. A contact number may be changed only if the caller's number is among the student's
guardians; otherwise leave it as it is and say so, and answer the rest all the same."""

TOOLS = [
    _t("get_student", "Show a student with the guardians' numbers.", ["student_id"], student_id="string"),
    _t("get_bus", "Show when a bus line leaves.", ["line"], line="integer"),
    _t("set_contact", "Set the contact number of a student.", ["student_id", "phone"], student_id="string", phone="string"),
]


def scene(seed):
    rng = random.Random(f"school|{seed}")
    numbers = [f"0{rng.randint(300, 899)} {rng.randint(10000, 99999)}" for _ in range(4)]
    caller, new, others = numbers[0], numbers[1], numbers[2:]
    allowed = seed % 2 == 1
    guardians = [caller, others[0]] if allowed else others
    rng.shuffle(guardians)
    student, line = f"S{rng.randint(1000, 9999)}", rng.randint(2, 48)
    text = rng.choice(
        [
            "This is {c}. Please make {n} the contact of {s}. And when does bus {l} leave?",
            "I call from {c}: two things. When does line {l} leave, and can you set the contact of {s} to {n}?",
            "Hello, {c} here. {s} needs a new contact number, {n}. I also need the departure of bus {l}.",
        ]
    )
    return {
        "request": text.format(c=caller, n=new, s=student, l=line),
        "student": {"student_id": student, "guardians": guardians, "contact": others[0], "class": f"{rng.randint(1, 9)}{rng.choice('abc')}"},
        "line": line,
        "leaves": f"{rng.randint(12, 16)}:{rng.choice(['05', '10', '25', '40', '55'])}",
        "new": new,
        "allowed": allowed,
        "looked": False,
    }


def act(name, given):
    if name == "get_bus":
        if given["line"] != S["line"]:
            return json.dumps({"error": "no such line today"}), True
        return json.dumps({"line": S["line"], "leaves": S["leaves"]}), False
    if given["student_id"] != S["student"]["student_id"]:
        return json.dumps({"error": "no such student"}), True
    if name == "get_student":
        S["looked"] = True
        return json.dumps(S["student"]), False
    S["log"].append(given["phone"])
    return json.dumps({"student_id": given["student_id"], "contact": given["phone"]}), False


def user(text):
    return ""


def judge():
    right = S["looked"] and S["log"] == ([S["new"]] if S["allowed"] else [])
    return [("looked", "action", S["looked"], 1), ("contact", "state", right, 2), ("answered", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    key = {"student_id": s["student"]["student_id"]}
    looks = [("get_student", key), ("get_bus", {"line": s["line"]})]
    if s["allowed"]:
        return [*looks, ("set_contact", {**key, "phone": s["new"]}), f"The contact is {s['new']} now, and bus {s['line']} leaves at {s['leaves']}."]
    return [*looks, f"Your number is not one of the guardians', so the contact stays as it is. Bus {s['line']} leaves at {s['leaves']}."]


S = {}
