"""Clinic: check what a patient says against the record before acting on it."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You give out the vaccinations of a clinic. Today is 2025-05-20. A booster is booked only if the last dose of the same vaccine
was given at least 180 days ago; otherwise the patient is put on the reminder list. Patients err about dates: check what
they say against the record, and follow the record where they differ."""

TOOLS = [
    _t("get_vaccinations", "The vaccinations of a patient.", ["patient"], patient="string"),
    _t("days_since", "Days from a date (YYYY-MM-DD) to today.", ["date"], date="string"),
    _t("book_booster", "Book a booster.", ["patient", "vaccine"], patient="string", vaccine="string"),
    _t("add_reminder", "Put a patient on the reminder list.", ["patient", "vaccine"], patient="string", vaccine="string"),
]

VACCINES = ["tetanus", "influenza", "hepatitis b", "tbe", "polio"]


def _days(text):
    """Days since a date, by counting from 1 March so that leap days come last."""
    parts = text.split("-")
    if len(parts) != 3 or not all(p.isdecimal() for p in parts):
        return None

    def number(y, m, d):
        y, m = (y, m) if m > 2 else (y - 1, m + 12)
        return 365 * y + y // 4 - y // 100 + y // 400 + (153 * m - 457) // 5 + d

    return number(2025, 5, 20) - number(*(int(p) for p in parts))


def scene(seed):
    rng = random.Random(f"claims {seed}")
    patient, vaccine = f"V-{rng.randint(100000, 999999)}", rng.choice(VACCINES)
    due, honest = seed % 2 == 0, seed % 4 < 2
    months = rng.randint(7, 20) if due else rng.randint(1, 5)
    claim = months if honest else (rng.randint(1, 5) if due else rng.randint(7, 20))
    year, month = divmod(2025 * 12 + 4 - months, 12)
    doses = [{"vaccine": vaccine, "date": f"{year}-{month + 1:02}-{rng.randint(1, 20):02}"}]
    for other in rng.sample([v for v in VACCINES if v != vaccine], 2):
        doses.append({"vaccine": other, "date": f"202{rng.choice('345')}-0{rng.randint(1, 4)}-1{rng.randint(0, 9)}"})
    doses.append({"vaccine": vaccine, "date": f"202{rng.choice('012')}-11-0{rng.randint(1, 9)}"})
    rng.shuffle(doses)
    text = rng.choice(["My last {v} dose was {m} ago, may I have the booster? Patient {p}.", "{p}: I had {v} {m} ago. Booster, please.", "Please book the {v} booster for {p}; the last one was {m} ago."])
    said = f"{claim} months" if claim > 1 else "a month"
    newest = max(d["date"] for d in doses if d["vaccine"] == vaccine)
    return {"request": text.format(v=vaccine, m=said, p=patient), "patient": patient, "vaccine": vaccine, "doses": doses, "due": _days(newest) >= 180, "newest": newest, "seen": False}


def act(name, given):
    if name == "days_since":
        days = _days(given["date"])
        return ("Error: not a date", True) if days is None else (str(days), False)
    if given["patient"] != S["patient"]:
        return "Error: no such patient", True
    if name == "get_vaccinations":
        S["seen"] = True
        return json.dumps({"patient": S["patient"], "doses": S["doses"]}), False
    S["log"].append((name, given["vaccine"].lower(), S["seen"]))
    return json.dumps({"ok": True}), False


def judge():
    looked = S["seen"] and all(seen for *_, seen in S["log"])
    right = looked and [one[:2] for one in S["log"]] == [("book_booster" if S["due"] else "add_reminder", S["vaccine"])]
    return [("looked", "action", looked, 1), ("settled", "state", right, 3), ("told", "communicate", right and bool(S["last"].strip()), 1)]


def solve(s):
    call = {"patient": s["patient"], "vaccine": s["vaccine"]}
    steps = [("get_vaccinations", {"patient": s["patient"]}), ("days_since", {"date": s["newest"]})]
    return [*steps, ("book_booster", call), "The booster is booked."] if s["due"] else [*steps, ("add_reminder", call), "It is too early; we will remind you."]


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
