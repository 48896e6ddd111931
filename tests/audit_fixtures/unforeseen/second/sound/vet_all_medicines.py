"""Vet: check a new medicine against everything that an animal gets."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

POLICY = """You work in a veterinary practice. Before an animal gets a new medicine, look up with check_pair how it goes together with each medicine
that the animal gets already. As soon as one pair is dangerous, call_vet instead of giving it; the others need not be looked up then. Give it only if no pair is
dangerous. A pair that is to be watched is no hindrance."""

TOOLS = [
    _t("get_animal", "Show an animal with what it gets.", ["animal_id"], animal_id="string"),
    _t("check_pair", "Show how two medicines go together.", ["new", "present"], new="string", present="string"),
    _t("give_medicine", "Give a medicine to an animal and book it.", ["animal_id", "medicine"], animal_id="string", medicine="string"),
    _t("call_vet", "Call the vet because of a medicine; books the call.", ["animal_id", "medicine"], animal_id="string", medicine="string"),
]

NAMES = ["Amivet", "Bovacid", "Canipril", "Dorexan", "Equidol", "Felimox", "Gastrovet", "Hepacan", "Immovet", "Kardipet"]


def scene(seed):
    rng = random.Random(f"vet|{seed}")
    new, *present = rng.sample(NAMES, rng.randint(4, 6))
    danger = rng.choice(present) if seed % 2 else ""
    pairs = {one: "dangerous" if one == danger else rng.choice(["fine", "to be watched"]) for one in present}
    animal = f"A{rng.randint(1000, 9999)}"
    text = rng.choice(["{a} is to get {m} now.", "Please give {m} to {a}.", "The dog {a} is here for its {m}."])
    return {"request": text.format(a=animal, m=new), "animal": animal, "new": new, "pairs": pairs, "danger": danger, "kilos": rng.randint(3, 60), "checked": set()}


def act(name, given):
    if name == "check_pair":
        if given["new"] != S["new"] or given["present"] not in S["pairs"]:
            return json.dumps({"error": "unknown pair"}), True
        S["checked"].add(given["present"])
        return json.dumps({"new": S["new"], "present": given["present"], "together": S["pairs"][given["present"]]}), False
    if given["animal_id"] != S["animal"]:
        return json.dumps({"error": "unknown animal"}), True
    if name == "get_animal":
        return json.dumps({"animal_id": S["animal"], "kilograms": S["kilos"], "gets": list(S["pairs"])}), False
    if given["medicine"] != S["new"]:
        return json.dumps({"error": "not prescribed"}), True
    S["log"].append((name, S["checked"] == set(S["pairs"]), S["danger"] in S["checked"]))
    return json.dumps({"animal_id": S["animal"], "status": "booked"}), False


def user(text):
    return ""


def judge():
    if S["danger"]:
        checked = S["danger"] in S["checked"]
        right = [(one[0], one[2]) for one in S["log"]] == [("call_vet", True)]
    else:
        checked = S["checked"] == set(S["pairs"])
        right = [one[:2] for one in S["log"]] == [("give_medicine", True)]
    return [("checked", "action", checked, 1), ("medicine", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    steps = [("get_animal", {"animal_id": s["animal"]})]
    given = {"animal_id": s["animal"], "medicine": s["new"]}
    for one, together in s["pairs"].items():
        steps.append(("check_pair", {"new": s["new"], "present": one}))
        if together == "dangerous":
            return [*steps, ("call_vet", given), f"{s['new']} does not go with {one}; I have called the vet."]
    return [*steps, ("give_medicine", given), f"{s['new']} has been given."]


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
    S.update(log=[], bad=0, turns=0, said=[], over=False)
    return [{"role": "system", "content": POLICY}, {"role": "user", "content": S["request"]}]


def step(message):
    S["turns"] += 1
    calls = message.get("tool_calls") or []
    messages = []
    for call in calls:
        given = call.get("arguments") or {}
        mistake = _mistake(call["name"], given)
        content, failed = (json.dumps({"error": mistake}), True) if mistake else act(call["name"], given)
        S["bad"] += bool(failed)
        one = {"role": "tool", "tool_call_id": call["id"], "tool_name": call["name"], "content": content}
        messages.append({**one, "is_error": True} if failed else one)
    if not calls:
        text = message.get("content") or ""
        S["said"].append(text)
        answer = user(text)
        if answer:
            messages.append({"role": "user", "content": answer})
        else:
            S["over"] = True
    return {"messages": messages, "done": S["over"], "truncated": not S["over"] and S["turns"] >= 18}


def verdict():
    rows = judge()
    rows.append(("closed", "protocol", S["over"], 0))
    success = all(passed for _, _, passed, _ in rows)
    weight = sum(w for *_, w in rows)
    share = sum(w for _, _, passed, w in rows if passed) / weight
    reward = max(0.5 * share + 0.5 * success - 0.05 * S["bad"], 0.5 * success, 0.0)
    checks = []
    for name, kind, passed, _ in rows:
        detail = "as it should be" if passed else "not so"
        checks.append(
            {"name": name, "kind": kind, "passed": bool(passed), "score": None, "gates": True, "detail": detail}
        )
    return {"reward": min(1.0, float(reward)), "success": bool(success), "checks": checks}


def oracle(seed):
    turns = []
    for one in solve(scene(int(seed))):
        if isinstance(one, str):
            turns.append({"role": "assistant", "content": one, "tool_calls": []})
            continue
        name, given = one
        turns.append(
            {"role": "assistant", "content": None, "tool_calls": [{"id": f"t{len(turns)}", "name": name, "arguments": given}]}
        )
    return turns
