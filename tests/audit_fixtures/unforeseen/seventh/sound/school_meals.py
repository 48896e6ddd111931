"""A school kitchen: a note in one's own words that says what a child must not get."""

import json
import random


def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You sign children up for meals in a school. Look at the child and at the meal of the day first. If the meal holds something that the child does not tolerate, send the kitchen a note with note_to_kitchen that says what it must leave out for this child; the kitchen cooks something else then. Otherwise sign the child up with sign_up. Do just one of these."""

TOOLS = [
    _t("get_child", "Show a child.", ["child"], child="string"),
    _t("get_meal", "Show the meal of a day.", ["day"], day="string"),
    _t("sign_up", "Sign a child up for a meal.", ["child", "day"], child="string", day="string"),
    _t("note_to_kitchen", "Send the kitchen a note about a child's meal.", ["child", "day", "text"], child="string", day="string", text={"type": "string", "description": "In your own words."}),
]
THINGS = ["peanuts", "milk", "eggs", "fish", "celery", "mustard", "sesame", "soy", "wheat", "lupin"]


def scene(seed):
    rng = random.Random(f"school {seed}")
    cannot = rng.sample(THINGS, rng.randint(1, 3))
    others = [one for one in THINGS if one not in cannot]
    bad = sorted(rng.sample(cannot, rng.randint(1, len(cannot)))) if rng.random() < 0.5 else []
    holds = bad + rng.sample(others, rng.randint(2, 4))
    rng.shuffle(holds)
    child = f"{rng.choice(['Ada', 'Ben', 'Cleo', 'Dov', 'Ema', 'Finn'])} {rng.choice(['Haas', 'Berg', 'Sand', 'Roth'])} {rng.randint(10, 99)}"
    day = f"2026-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"
    text = rng.choice(["{c} would like to eat at school on {d}.", "Please see to lunch for {c} on {d}.", "{d}: a meal for {c}, please."])
    return {"request": text.format(c=child, d=day), "child": {"child": child, "class": f"{rng.randint(1, 6)}{rng.choice('abc')}", "does_not_tolerate": cannot}, "meal": {"day": day, "dish": rng.choice(["soup", "pie", "curry", "noodles", "salad"]), "holds": holds}, "clash": bad, "seen": set()}


def act(name, given):
    if given.get("child", S["child"]["child"]) != S["child"]["child"]:
        return json.dumps({"error": "no such child"}), True
    if given.get("day", S["meal"]["day"]) != S["meal"]["day"]:
        return json.dumps({"error": "no meal on that day"}), True
    if name == "get_child":
        S["seen"].add("child")
        return json.dumps(S["child"]), False
    if name == "get_meal":
        S["seen"].add("meal")
        return json.dumps(S["meal"]), False
    S["log"].append((name, given.get("text", ""), len(S["seen"]) == 2))
    return json.dumps({"child": S["child"]["child"], "day": S["meal"]["day"], "taken": name}), False


def user(text):
    return ""


def says(text):
    """Each by its stem, so that "a peanut", "egg-free" and "no dairy milk" will do; nothing that is harmless for the child."""
    said = text.lower()
    stems = {one: one.rstrip("s") for one in THINGS}
    harmless = [one for one in S["meal"]["holds"] if one not in S["child"]["does_not_tolerate"]]
    return all(stems[one] in said for one in S["clash"]) and not any(stems[one] in said for one in harmless)


def judge():
    first = S["log"][0] if len(S["log"]) == 1 else ("", "", False)
    decided = first[2] and first[0] == ("note_to_kitchen" if S["clash"] else "sign_up")
    right = decided and (not S["clash"] or says(first[1]))
    return [("looked", "action", len(S["seen"]) == 2, 1), ("decided", "state", decided, 2), ("the note says it", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    child, day = s["child"]["child"], s["meal"]["day"]
    looks = [("get_child", {"child": child}), ("get_meal", {"day": day})]
    if not s["clash"]:
        return [*looks, ("sign_up", {"child": child, "day": day}), f"{child} is signed up."]
    text = f"Please cook this child's meal without {' and '.join(s['clash'])}."
    return [*looks, ("note_to_kitchen", {"child": child, "day": day, "text": text}), f"I have told the kitchen what {child} must not get."]


S = {}
