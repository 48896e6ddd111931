"""Library: exhaust the catalogues before saying that a title is not there."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You help the readers of a group of libraries. Three catalogues can be searched: city, region, archive. Do not tell a
reader that a title is not available before all of them have been searched. If it is there, place a hold at the place
that has it; if it is nowhere, say so and place no hold."""

PLACES = ["city", "region", "archive"]
TOOLS = [
    _t("search_catalogue", "Search one catalogue for a title.", ["place", "title"], place={"type": "string", "enum": PLACES}, title="string"),
    _t("place_hold", "Place a hold.", ["place", "title"], place={"type": "string", "enum": PLACES}, title="string"),
]

ADJECTIVES = ["Silent", "Golden", "Broken", "Distant", "Hidden", "Winter", "Scarlet", "Empty"]
NOUNS = ["Harbour", "Orchard", "Mirror", "Garden", "Station", "Letter", "River", "Tower"]


def scene(seed):
    rng = random.Random(seed + 99)
    title = f"The {rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}, vol. {rng.randint(1, 40)}"
    place = rng.choice(PLACES) if seed % 2 == 0 else None
    text = rng.choice(["Do you have '{t}'? I would like to read it.", "I am looking for '{t}'. Please keep it for me if it is there.", "Please reserve '{t}' for me."])
    return {"request": text.format(t=title), "title": title, "place": place, "n": 0}


def act(name, given):
    S["n"] += 1
    if name == "place_hold":
        if given["place"] != S["place"] or given["title"] != S["title"]:
            return "Error: not in that catalogue", True
        S["log"].append(given["place"])
        return json.dumps({"hold": "placed"}), False
    found = given["place"] == S["place"] and given["title"] == S["title"]
    return json.dumps({"place": given["place"], "hits": [S["title"]] if found else []}), False


def judge():
    return [
        ("effort_1", "action", S["n"] >= 1, 1),
        ("effort_2", "action", S["n"] >= 2, 1),
        ("effort_3", "action", S["n"] >= 3, 2),
        ("hold", "state", S["n"] >= 3 and S["log"] == ([S["place"]] if S["place"] else []), 1),
        ("told", "communicate", S["n"] >= 3 and bool(S["last"].strip()), 1),
    ]


def solve(s):
    steps = [("search_catalogue", {"place": p, "title": s["title"]}) for p in PLACES]
    if s["place"]:
        return [*steps, ("place_hold", {"place": s["place"], "title": s["title"]}), f"'{s['title']}' is kept for you ({s['place']})."]
    return [*steps, f"'{s['title']}' is in none of our catalogues."]


S = {}


_KINDS = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict}


def _mistake(name, given):
    for tool in TOOLS:
        if tool["function"]["name"] != name:
            continue
        spec = tool["function"]["parameters"]
        for key in spec["required"]:
            if key not in given:
                return f"missing argument '{key}'"
        for key, value in given.items():
            if key not in spec["properties"]:
                return f"unexpected argument '{key}'"
            kind = spec["properties"][key].get("type", "string")
            if not isinstance(value, _KINDS[kind]) or (isinstance(value, bool) and kind != "boolean"):
                return f"argument '{key}' must be of type {kind}"
            allowed = spec["properties"][key].get("enum")
            if allowed and value not in allowed:
                return f"argument '{key}' must be one of {allowed}"
        return ""
    return f"unknown tool '{name}'"


def tools():
    return TOOLS


def reset(seed):
    S.clear()
    S.update(scene(int(seed)))
    S.update(log=[], bad=0, turns=0, last="", over=False)
    return [{"role": "system", "content": POLICY}, {"role": "user", "content": S["request"]}]


def step(message):
    S["turns"] += 1
    calls = message.get("tool_calls") or []
    if not calls:
        S["last"] = message.get("content") or ""
        S["over"] = True
        return {"messages": [], "done": True, "truncated": False}
    out = []
    for call in calls:
        given = call.get("arguments") or {}
        mistake = _mistake(call["name"], given)
        if mistake:
            text, failed = f"Error: {mistake}", True
        else:
            text, failed = act(call["name"], given)
        S["bad"] += bool(failed)
        answer = {"role": "tool", "tool_call_id": call["id"], "tool_name": call["name"], "content": text}
        if failed:
            answer["is_error"] = True
        out.append(answer)
    return {"messages": out, "done": False, "truncated": S["turns"] >= 20}


def verdict():
    rows = judge()
    checks = [
        {"name": n, "kind": k, "passed": bool(p), "score": None, "gates": True, "detail": "" if p else f"{n} failed"}
        for n, k, p, _ in rows
    ]
    checks.append({"name": "ended", "kind": "protocol", "passed": S["over"], "score": None, "gates": True, "detail": ""})
    success = all(c["passed"] for c in checks)
    total = sum(w for *_, w in rows) or 1
    share = sum(w for _, _, p, w in rows if p) / total
    reward = 0.5 * share + 0.5 * success - 0.05 * S["bad"]
    return {"reward": float(min(1.0, max(0.5 * success, reward, 0.0))), "success": success, "checks": checks}


def oracle(seed):
    out = []
    for number, one in enumerate(solve(scene(int(seed)))):
        if isinstance(one, str):
            out.append({"role": "assistant", "content": one, "tool_calls": []})
        else:
            call = {"id": f"call_{number}", "name": one[0], "arguments": one[1]}
            out.append({"role": "assistant", "content": None, "tool_calls": [call]})
    return out
