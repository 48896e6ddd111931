"""Clinic: read the doctor's note before a prescription is renewed."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You are the front desk of a practice. A prescription may be renewed unless the doctor's note in the chart asks to see the
patient first; then offer a visit with book_visit and do not renew. Read the chart before you do either."""

TOOLS = [
    _t("read_chart", "The latest note in a patient's chart.", ["patient_no"], patient_no="string"),
    _t("renew_prescription", "Renew a prescription.", ["patient_no", "drug"], patient_no="string", drug="string"),
    _t("book_visit", "Offer a patient a visit.", ["patient_no"], patient_no="string"),
]

FREE = [
    "Doing well on {d}. {m} Renew as needed.",
    "{m} Tolerates {d} without trouble; repeat without a visit is fine.",
    "Stable. I need not see {h} for the next repeat of {d}. {m}",
    "{d} as before, front desk may repeat it. {m}",
]
SEEN = [
    "On {d}. {m} Wants a repeat soon, but I need to see {h} before the next one.",
    "{m} Do not repeat {d} without a visit.",
    "{d} may have to be changed: bring {h} in before anything is repeated. {m}",
    "Stable for now. {m} Next repeat of {d} only after I have seen {h}.",
]
MORE = ["Blood pressure 130/85.", "Asked about travel to Spain.", "Weight unchanged.", "Sleeps badly in summer.", "Daughter came along."]
DRUGS = ["ramipril", "levothyroxine", "metformin", "sertraline", "candesartan", "atorvastatin"]


def scene(seed):
    rng = random.Random(seed ^ 0xC11)
    patient, drug = f"{rng.randint(100, 999)}-{rng.randint(10, 99)}", rng.choice(DRUGS)
    visit = seed % 2 == 0
    note = rng.choice(SEEN if visit else FREE).format(d=drug, m=" ".join(rng.sample(MORE, 2)), h=rng.choice(["him", "her"]))
    text = rng.choice(["I have run out of {d}. Patient {p}.", "Patient {p}, a new prescription for {d} please.", "May I have {d} again? My number is {p}."])
    return {"request": text.format(d=drug, p=patient), "patient": patient, "drug": drug, "visit": visit, "note": note, "read": False}


def act(name, given):
    if given["patient_no"] != S["patient"]:
        return "Error: no such patient", True
    if name == "read_chart":
        S["read"] = True
        return S["note"], False
    S["log"].append((name, given.get("drug", "").lower(), S["read"]))
    return "Done.", False


def judge():
    read = S["read"] and all(seen for *_, seen in S["log"])
    want = ("book_visit", "") if S["visit"] else ("renew_prescription", S["drug"])
    right = read and [one[:2] for one in S["log"]] == [want]
    return [("chart_read", "action", read, 1), ("settled", "state", right, 3), ("answered", "communicate", right and bool(S["last"].strip()), 1)]


def solve(s):
    look = ("read_chart", {"patient_no": s["patient"]})
    if s["visit"]:
        return [look, ("book_visit", {"patient_no": s["patient"]}), "The doctor would like to see you first."]
    return [look, ("renew_prescription", {"patient_no": s["patient"], "drug": s["drug"]}), "The prescription is renewed."]


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
