"""Clinic: tell urgent complaints from others by the patient's record."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You answer the messages of a clinic's patients. Look the patient up. A complaint is urgent if the record names a risk
that belongs to it (such as a heart condition with chest pain); an urgent one goes to the nurse on duty at once. Another
one gets an appointment. Patients write from the portal (with a number) or by mail (with a name and a birthday)."""

TOOLS = [
    _t("get_patient", "Show a patient by number.", ["patient_id"], patient_id="string"),
    _t("find_patient", "Find a patient by name and date of birth.", ["name", "born"], name="string", born="string"),
    _t("call_nurse", "Call the nurse on duty for a patient.", ["patient_id", "note"], patient_id="string", note="string"),
    _t("make_appointment", "Give a patient an appointment.", ["patient_id", "date"], patient_id="string", date="string"),
]

PAIRS = [
    ("chest pain", "heart condition"),
    ("a swollen leg", "earlier thrombosis"),
    ("fever", "chemotherapy"),
    ("a bad headache", "blood thinner"),
    ("short breath", "severe asthma"),
]
NAMES = ["Petra Voss", "Samuel Adeyemi", "Lin Zhao", "Marta Costa", "Jon Berg", "Ines Rey"]


def scene(seed):
    rng = random.Random(f"triage{seed}")
    complaint, risk = rng.choice(PAIRS)
    patient = {
        "patient_id": f"P{rng.randint(100000, 999999)}",
        "name": rng.choice(NAMES),
        "born": f"19{rng.randint(40, 99)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}",
        "conditions": rng.sample([risk, "hay fever", "short-sighted"], rng.randint(2, 3)),
        "doctor": rng.choice(["Dr Amsel", "Dr Brandt", "Dr Choi"]),
    }
    if risk not in patient["conditions"]:
        patient["conditions"][0] = risk
    portal = seed % 2 == 0
    who = f"patient {patient['patient_id']}" if portal else f"{patient['name']}, born {patient['born']}"
    since = rng.choice(["this morning", "yesterday", "last night", "an hour ago"])
    text = rng.choice(["Since {s} I have {c}. I am {w}.", "{w} writing: {c} since {s}. What shall I do?", "Could somebody see me? I have had {c} since {s}. ({w})"])
    return {"request": text.format(s=since, c=complaint, w=who), "patient": patient, "portal": portal, "seen": False}


def act(name, given):
    p = S["patient"]
    if name == "find_patient":
        if (given["name"], given["born"]) != (p["name"], p["born"]):
            return "Error: no such patient", True
        S["seen"] = True
        return json.dumps(p), False
    if given["patient_id"] != p["patient_id"]:
        return "Error: no such patient", True
    if name == "get_patient":
        S["seen"] = True
        return json.dumps(p), False
    S["log"].append((name, S["seen"]))
    return json.dumps({"ok": True}), False


def judge():
    looked = S["seen"] and all(seen for _, seen in S["log"])
    right = looked and [n for n, _ in S["log"]] == ["call_nurse"]
    return [("looked_up", "action", looked, 1), ("handled", "state", right, 2), ("told", "communicate", right and bool(S["last"].strip()), 1)]


def solve(s):
    p = s["patient"]
    look = ("get_patient", {"patient_id": p["patient_id"]}) if s["portal"] else ("find_patient", {"name": p["name"], "born": p["born"]})
    return [look, ("call_nurse", {"patient_id": p["patient_id"], "note": "urgent, see the record"}), "The nurse on duty is calling you now."]


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
