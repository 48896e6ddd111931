"""An examinations office: adjustments by certificates in a Markdown table. A dict of handlers, a set is what is paid."""

import datetime
import random

HANDBOOK = """# Examinations office

A student asks for the exam adjustments that are due. Read the request's exam (`read_exam`) and the student's certificates
(`read_certificates`), then record each adjustment that is due with `grant`, one call each, and no other. If none is due, call
`decline` once.

* An adjustment is due if a certificate for it is **valid on the day of the exam** (first and last day included) and
  **verified**.
* `laptop` is never due for an exam of the kind *oral*.
* `extra time` is not due for an exam of the kind *coursework*.

Then answer the student."""

KINDS = ["extra time", "laptop", "separate room", "rest breaks", "large print"]
DAY0 = datetime.date(2025, 3, 1)


def make(seed):
    dice = random.Random(seed)
    dice.random()
    day = DAY0 + datetime.timedelta(days=dice.randrange(0, 220))
    exam = {
        "title": dice.choice(["Algebra", "Botany", "Civil Law", "Dynamics", "Ethics", "French", "Geology", "History"]) + dice.choice([" I", " II", " III"]),
        "day": day,
        "kind": dice.choice(["written", "written", "oral", "coursework"]),
    }
    rows = []
    none = dice.random() < 0.35
    for kind in dice.sample(KINDS, dice.choice([2, 3, 3, 4])):
        ok = dice.random() < 0.5 and not none
        start, end = day - datetime.timedelta(days=dice.choice([0, 3, 40, 200])), day + datetime.timedelta(days=dice.choice([0, 2, 33, 180]))
        verified = "yes"
        if not ok:
            spoil = dice.randrange(3)
            if spoil == 0:
                start, end = start - datetime.timedelta(days=300), day - datetime.timedelta(days=dice.choice([1, 2, 15]))
            elif spoil == 1:
                start, end = day + datetime.timedelta(days=dice.choice([1, 4, 20])), end + datetime.timedelta(days=250)
            else:
                verified = "no"
        rows.append({"kind": kind, "from": start, "to": end, "verified": verified, "doctor": dice.choice(["Adler", "Bose", "Cruz", "Dietz", "Endo"])})
    return {
        "student": f"s{dice.randrange(10**6):06d}",
        "exam": exam,
        "rows": rows,
        "hello": dice.choice(
            [
                "Hi, I'm {s}. Which adjustments do I get for {e}?",
                "{s} here, it's about my adjustments in {e}.",
                "Please set up my exam adjustments for {e}. My number is {s}.",
                "Could you put in what I'm entitled to for {e}? ({s})",
            ]
        ),
    }


def entitled(m):
    good = set()
    for row in m["rows"]:
        if row["verified"] != "yes" or not row["from"] <= m["exam"]["day"] <= row["to"]:
            continue
        if row["kind"] == "laptop" and m["exam"]["kind"] == "oral":
            continue
        if row["kind"] == "extra time" and m["exam"]["kind"] == "coursework":
            continue
        good.add(row["kind"])
    return good


mem = {}


def _exam(student):
    mem["looked"].add("exam")
    e = mem["m"]["exam"]
    return f"| exam | day | kind |\n|---|---|---|\n| {e['title']} | {e['day']} | {e['kind']} |"


def _certificates(student):
    mem["looked"].add("certificates")
    head = "| adjustment | from | to | verified | signed by |\n|---|---|---|---|---|\n"
    return head + "\n".join(f"| {r['kind']} | {r['from']} | {r['to']} | {r['verified']} | Dr {r['doctor']} |" for r in mem["m"]["rows"])


def _grant(student, adjustment):
    if adjustment not in KINDS:
        raise LookupError("no such adjustment: " + adjustment)
    mem["early"] |= len(mem["looked"]) < 2
    mem["granted"].append(adjustment)
    return f"**granted**: {adjustment}"


def _decline(student):
    mem["early"] |= len(mem["looked"]) < 2
    mem["declined"] += 1
    return "**declined**"


HANDLERS = {
    "read_exam": (_exam, "Show the exam a student asks about."),
    "read_certificates": (_certificates, "Show the certificates of a student."),
    "grant": (_grant, "Grant one adjustment to a student."),
    "decline": (_decline, "Decline a student's request as a whole."),
}


def tools():
    out = []
    for name, (_, text) in HANDLERS.items():
        props = {"student": {"type": "string", "description": "the student's number"}}
        if name == "grant":
            props["adjustment"] = {"type": "string", "enum": KINDS}
        out.append({"type": "function", "function": {"name": name, "description": text, "parameters": {"type": "object", "properties": props, "required": list(props), "additionalProperties": False}}})
    return out


PARAMS = {t["function"]["name"]: t["function"]["parameters"]["required"] for t in tools()}


def reset(seed):
    mem.clear()
    m = make(seed)
    mem.update(m=m, looked=set(), granted=[], declined=0, early=False, slips=0, steps=0, answered=False)
    return [{"role": "system", "content": HANDBOOK}, {"role": "user", "content": m["hello"].format(s=m["student"], e=m["exam"]["title"])}]


def step(message):
    mem["steps"] += 1
    back = []
    for call in message.get("tool_calls") or ():
        name, given = call["name"], call["arguments"]
        entry = {"role": "tool", "tool_call_id": call["id"], "tool_name": name}
        try:
            if name not in HANDLERS:
                raise LookupError("unknown tool " + name)
            if sorted(given) != sorted(PARAMS[name]):
                raise LookupError("arguments needed: " + ", ".join(PARAMS[name]))
            if any(not isinstance(v, str) for v in given.values()):
                raise LookupError("arguments must be strings")
            if given["student"] != mem["m"]["student"]:
                raise LookupError("student not found")
            entry["content"] = HANDLERS[name][0](**given)
        except LookupError as e:
            entry["content"], entry["is_error"] = "> error: " + str(e), True
            mem["slips"] += 1
        back.append(entry)
    if not back:
        mem["answered"] = True
        return {"messages": [], "done": True, "truncated": False}
    return {"messages": back, "done": False, "truncated": mem["steps"] >= 12}


def verdict():
    want = entitled(mem["m"])
    got = set(mem["granted"])
    exact = sorted(mem["granted"]) == sorted(want) and mem["declined"] == (not want)
    done = bool(mem["granted"] or mem["declined"])
    looked = len(mem["looked"]) == 2 and not mem["early"]
    overlap = len(got & want) / len(got | want) if got | want else float(mem["declined"] > 0)
    success = exact and looked and mem["answered"]
    reward = 0.0
    if done and looked:
        reward = 0.1 + 0.3 * overlap + 0.2 * exact - 0.05 * mem["slips"]
        if mem["declined"] and want or len(mem["granted"]) != len(got) or not want and got:
            reward = 0.05
    return {
        "reward": 1.0 if success else max(0.0, min(0.7, reward)),
        "success": success,
        "checks": [
            {"name": "looked first", "kind": "action", "passed": looked and done, "score": None, "gates": True, "detail": ""},
            {"name": "what is due and no more", "kind": "state", "passed": exact, "score": overlap, "gates": True, "detail": ""},
            {"name": "answered", "kind": "protocol", "passed": mem["answered"], "score": None, "gates": True, "detail": ""},
        ],
    }


def oracle(seed):
    m = make(seed)
    want = [r["kind"] for r in m["rows"] if r["kind"] in entitled(m)]
    s = {"student": m["student"]}
    looks = [{"id": "a", "name": "read_exam", "arguments": s}, {"id": "b", "name": "read_certificates", "arguments": s}]
    deeds = [{"id": f"g{i}", "name": "grant", "arguments": {**s, "adjustment": k}} for i, k in enumerate(want)]
    deeds = deeds or [{"id": "d", "name": "decline", "arguments": s}]
    last = "I have recorded: " + ", ".join(want) + "." if want else "Nothing can be granted on these certificates."
    return [
        {"role": "assistant", "content": None, "tool_calls": looks},
        {"role": "assistant", "content": None, "tool_calls": deeds},
        {"role": "assistant", "content": last, "tool_calls": []},
    ]
