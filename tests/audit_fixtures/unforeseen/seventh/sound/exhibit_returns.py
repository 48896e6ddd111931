"""A museum: everything on several pages goes back, but for what must stay."""

import json
import random


def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You send the objects of an exhibition back to their lenders when it closes. Go through the whole list, page by page. Every object is sent back with send_back, except those whose loan is prolonged and those that are in the workshop: these stay. Send nothing back that does not belong to the exhibition. When all is done, tell the curator; if nothing may go, say so."""

TOOLS = [
    _t("list_objects", "Show a page of an exhibition's objects.", ["exhibition"], exhibition="string", page={"type": "integer", "description": "1 by default."}),
    _t("send_back", "Send an object back to its lender.", ["object"], object="string"),
]
LENDERS = ["Graz", "Lyon", "Porto", "Gdansk", "Bergen"]


def scene(seed):
    rng = random.Random(f"museum {seed}")
    size = rng.randint(4, 6)
    objects = [f"{rng.choice('ABK')}{number}" for number in rng.sample(range(1000, 9999), size)]
    going = [False] * size if rng.random() < 0.25 else [rng.random() < 0.45 for _ in objects]
    rows = []
    for one, goes in zip(objects, going):
        stays = None if goes else rng.choice(["prolonged", "workshop"])
        rows.append({"object": one, "lender": rng.choice(LENDERS), "loan": "prolonged" if stays == "prolonged" else "ended", "place": "workshop" if stays == "workshop" else f"room {rng.randint(1, 9)}"})
    name = f"{rng.choice(['Glass', 'Maps', 'Clocks', 'Silk', 'Ivory'])} {rng.randint(1400, 1900)}"
    text = rng.choice(["The exhibition {!r} has closed, please send its objects back.", "{!r} is over. Everything that may go can go home.", "Please clear {!r}."])
    return {"request": text.format(name), "name": name, "rows": rows, "going": sorted(o for o, g in zip(objects, going) if g), "seen": set()}


def act(name, given):
    if name == "list_objects":
        page = given.get("page", 1)
        if given["exhibition"] != S["name"] or not 1 <= page <= (len(S["rows"]) + 1) // 2:
            return json.dumps({"error": "no such page"}), True
        S["seen"].add(page)
        last = page == (len(S["rows"]) + 1) // 2
        return json.dumps({"objects": S["rows"][2 * page - 2 : 2 * page], "next_page": None if last else page + 1}), False
    if given["object"] not in [row["object"] for row in S["rows"]]:
        return json.dumps({"error": "no such object"}), True
    if given["object"] in S["log"]:
        return json.dumps({"error": "already sent"}), True
    S["log"].append(given["object"])
    return json.dumps({"object": given["object"], "status": "sent"}), False


def user(text):
    return ""


def judge():
    wrong = [one for one in S["log"] if one not in S["going"]]
    all_sent = S["over"] and set(S["going"]) <= set(S["log"])
    right = all_sent and not wrong and 2 * len(S["seen"]) >= len(S["rows"])
    told = right and bool(S["said"] and S["said"][-1].strip())
    return [("nothing that must stay", "state", right or (bool(S["log"]) and not wrong), 1), ("all that may go", "state", right, 3), ("told", "communicate", told, 1)]


def solve(s):
    pages = (len(s["rows"]) + 1) // 2
    turns = [("list_objects", {"exhibition": s["name"], "page": page}) for page in range(1, pages + 1)]
    turns += [("send_back", {"object": row["object"]}) for row in s["rows"] if row["object"] in s["going"]]
    return [*turns, "All that may go is on its way." if s["going"] else "I have sent nothing: all of it has to stay for now."]


S = {}
