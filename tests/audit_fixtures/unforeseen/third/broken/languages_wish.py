"""Language school: keep a wish of the first message to the end."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

POLICY = """You enrol people in courses of a language school. People say what they cannot do, such as certain days, in their first message, and their level
only when you ask for it: ask for the level first. Then enrol them in the course of their level that fits what they said at the beginning, too. If no course fits both, enrol
them in none and tell them so."""

TOOLS = [
    _t("list_courses", "Show the courses of a language.", ["language"], language="string"),
    _t("enrol", "Enrol a person in a course.", ["person", "course"], person="string", course="string"),
]

WEEK = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]
LEVELS = ["A1", "A2", "B1", "B2", "C1"]


def scene(seed):
    rng = random.Random(f"languages|{seed}")
    never = rng.choice(WEEK)
    days = [one for one in WEEK if one != never]
    rng.shuffle(days)
    levels = rng.sample(LEVELS, 4)
    offered = [{"course": f"K{number}", "level": level, "day": day} for number, level, day in zip(rng.sample(range(100, 999), 4), levels, days)]
    other = next(one for one in LEVELS if one not in levels)
    level = other if seed % 4 == 0 else rng.choice(levels)
    language = rng.choice(["Italian", "Polish", "Portuguese", "Turkish", "Greek"])
    person = f"N{rng.randint(10000, 99999)}"
    text = rng.choice(["I am {p} and want to learn {l}. I can never come on {d}s.", "{p} here: {l}, please, but not on {d}s.", "A course in {l} for {p}; {d}s are impossible for me."])
    return {
        "request": text.format(p=person, l=language, d=never),
        "person": person,
        "language": language,
        "courses": offered,
        "level": level,
        "reply": rng.choice(["I have {v}.", "{v}, they told me.", "My last course was {v}."]).format(v=level),
        "want": next((one["course"] for one in offered if one["level"] == level), ""),
        "never": never,
        "asked": False,
        "looked": False,
    }


def act(name, given):
    if name == "list_courses":
        if given["language"] != S["language"]:
            return json.dumps({"error": "no courses in it"}), True
        S["looked"] = True
        return json.dumps({"courses": S["courses"]}), False
    if given["person"] != S["person"]:
        return json.dumps({"error": "no such person"}), True
    if given["course"] not in [one["course"] for one in S["courses"]]:
        return json.dumps({"error": "no such course"}), True
    S["log"].append((given["course"], S["asked"]))
    return json.dumps({"person": given["person"], "course": given["course"], "status": "enrolled"}), False


def user(text):
    if S["log"] or S["asked"]:
        return ""
    S["asked"] = True
    return S["reply"]


def judge():
    looked = S["looked"] and S["asked"]
    right = looked and S["log"] == ([(S["want"], True)] if S["want"] else [])
    return [("looked", "action", looked, 1), ("course", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    steps = ["Which level do you have?", ("list_courses", {"language": s["language"]})]
    if s["want"]:
        return [*steps, ("enrol", {"person": s["person"], "course": s["want"]}), f"You are enrolled in {s['want']}, which is not on {s['never']}s."]
    return [*steps, f"There is no course in {s['language']} of your level that fits, so I have not enrolled you."]


S = {}
