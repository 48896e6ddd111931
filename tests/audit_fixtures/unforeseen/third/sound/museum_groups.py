"""Museum: split a large group by the limit of a tour before tours are booked."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

POLICY = """You book guided tours of a museum for groups. Every exhibition has a limit of people for one tour, which a look at the exhibition shows. A group
that is larger is split into as few tours as the limit allows, each booked by itself at another free time of that day, in any order; how the people are spread is settled at the
entrance. If the day has fewer free times than the group needs, book nothing and tell them so."""

TOOLS = [
    _t("get_exhibition", "Show an exhibition with its limit.", ["exhibition"], exhibition="string"),
    _t("free_times", "Show the free times of an exhibition on a day.", ["exhibition", "day"], exhibition="string", day="string"),
    _t("book_tour", "Book one tour at a time.", ["exhibition", "day", "time"], exhibition="string", day="string", time="string"),
]

NAMES = ["Glass of Three Centuries", "The Silent Mill", "Maps and Errors", "Under the Ice", "Letters Home"]


def scene(seed):
    rng = random.Random(f"museum|{seed}")
    limit = rng.randint(8, 20)
    tours = rng.randint(1, 3)
    people = rng.randint((tours - 1) * limit + 1, tours * limit)
    free = rng.randint(0, tours - 1) if seed % 4 == 0 else rng.randint(tours, tours + 2)
    times = sorted(rng.sample(["09:30", "10:15", "11:00", "11:45", "13:30", "14:15", "15:00"], free))
    name = rng.choice(NAMES)
    day = f"2031-{rng.randint(3, 11):02d}-{rng.randint(1, 28):02d}"
    text = rng.choice(["We are {n} people and would like a guided tour of '{e}' on {d}.", "A tour of '{e}' on {d} for {n}, please.", "On {d} I come with {n} people to see '{e}'. Please book a guide."])
    return {
        "request": text.format(n=people, e=name, d=day),
        "exhibition": {"exhibition": name, "people_a_tour": limit, "minutes": rng.choice([45, 60, 75]), "floor": rng.randint(0, 3)},
        "day": day,
        "times": times,
        "tours": tours,
        "people": people,
        "possible": free >= tours,
        "seen": set(),
    }


def act(name, given):
    if given["exhibition"] != S["exhibition"]["exhibition"] or given.get("day", S["day"]) != S["day"]:
        return json.dumps({"error": "nothing is shown of it on that day"}), True
    if name == "get_exhibition":
        S["seen"].add("limit")
        return json.dumps(S["exhibition"]), False
    if name == "free_times":
        S["seen"].add("times")
        return json.dumps({"day": S["day"], "free": [one for one in S["times"] if one not in S["log"]]}), False
    if given["time"] not in S["times"] or given["time"] in S["log"]:
        return json.dumps({"error": "not free"}), True
    S["log"].append(given["time"])
    return json.dumps({"exhibition": given["exhibition"], "time": given["time"], "status": "booked"}), False


def user(text):
    return ""


def judge():
    looked = S["seen"] == {"limit", "times"}
    right = looked and len(S["log"]) == (S["tours"] if S["possible"] else 0)
    return [("looked", "action", looked, 1), ("tours", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    name, day = s["exhibition"]["exhibition"], s["day"]
    looks = [("get_exhibition", {"exhibition": name}), ("free_times", {"exhibition": name, "day": day})]
    if not s["possible"]:
        return [*looks, "That day has too few free times for a group of your size. I have booked nothing."]
    times = s["times"][: s["tours"]]
    return [*looks, *(("book_tour", {"exhibition": name, "day": day, "time": one}) for one in times), f"Booked for {day}: {', '.join(times)}."]


S = {}
