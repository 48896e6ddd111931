"""Hotel: take a pet only into a room that is set up for it."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You serve the guests of a guest house. A pet may be added to a stay if the floor of the room is wood or stone; in rooms with
carpet it may not, and the guest is told so. Look at the stay before you answer."""

TOOLS = [
    _t("get_stay", "Show a stay.", ["stay"], stay="string"),
    _t("get_room", "Show a room.", ["room"], room="integer"),
    _t("add_pet", "Add a pet to a stay.", ["stay", "animal"], stay="string", animal={"type": "string", "enum": ["dog", "cat", "parrot"]}),
]

SHORT = ["May I bring my {a} to {s}?", "{s}: can my {a} come too?", "A {a} for {s}, please.", "Please add a {a} to {s}."]
LONG = [
    "We are looking forward to our days with you, stay {s}, and would like to bring our {a}.",
    "My sister cannot look after the {a} that week, could it come along with us? The stay is {s}.",
    "I hope this is not a bother, but would there be a place for a well-behaved {a} during {s}?",
    "Since the neighbours will be away as well, we would like to have the {a} with us. It is about {s}.",
]


def scene(seed):
    rng = random.Random(f"pet {seed}")
    stay, room = f"Q{rng.randint(10000, 99999)}", rng.randint(1, 40)
    animal = rng.choice(["dog", "cat", "parrot"])
    welcome = seed % 2 == 0
    floor = rng.choice(["wood", "stone"]) if welcome else "carpet"
    text = rng.choice(SHORT if welcome else LONG).format(a=animal, s=stay)
    return {
        "request": text,
        "stay": {"stay": stay, "room": room, "nights": rng.randint(1, 7), "guests": rng.randint(1, 4)},
        "room": {"room": room, "floor": floor, "beds": rng.randint(1, 3), "view": rng.choice(["garden", "street", "lake"])},
        "animal": animal,
        "welcome": welcome,
        "seen": set(),
    }


def act(name, given):
    if name == "get_room":
        if given["room"] != S["room"]["room"]:
            return "Error: no such room", True
        S["seen"].add("room")
        return json.dumps(S["room"]), False
    if given["stay"] != S["stay"]["stay"]:
        return "Error: no such stay", True
    if name == "get_stay":
        S["seen"].add("stay")
        return json.dumps(S["stay"]), False
    S["log"].append((given["animal"], "stay" in S["seen"]))
    return json.dumps({"ok": True}), False


def judge():
    looked = "stay" in S["seen"] and all(seen for _, seen in S["log"])
    right = looked and [a for a, _ in S["log"]] == ([S["animal"]] if S["welcome"] else [])
    return [("looked", "action", looked, 1), ("pet", "state", right, 2), ("told", "communicate", right and bool(S["last"].strip()), 1)]


def solve(s):
    steps = [("get_stay", {"stay": s["stay"]["stay"]}), ("get_room", {"room": s["room"]["room"]})]
    if s["welcome"]:
        return [*steps, ("add_pet", {"stay": s["stay"]["stay"], "animal": s["animal"]}), f"Your {s['animal']} is welcome."]
    return [*steps, "I am sorry, that room has a carpet, so pets cannot stay in it."]


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
