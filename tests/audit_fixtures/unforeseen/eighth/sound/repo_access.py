"""Access to repositories: the right person among namesakes, and the level that their contract allows."""

import random
from collections import namedtuple

POLICY = """You grant access to code repositories.

Several people may share a name. Make sure that you have the one who is meant before you grant anything.
- Employees get the level that was asked for.
- Contractors get "read", whatever was asked for.
- Nobody without a signed NDA gets access: send them the NDA with request_nda instead."""

Person = namedtuple("Person", "id name office team contract nda")
NAMES = ["Priya Nair", "Tom Becker", "Sofia Rossi", "Wei Zhang", "Omar Farouk", "Julia Novak", "Sam Carter"]
OFFICES = ["Lisbon", "Oslo", "Toronto", "Pune", "Austin"]
TEAMS = ["payments", "search", "mobile", "platform", "data"]
REPOS = ["billing-api", "web-shop", "ledger", "ios-app", "terraform", "etl-jobs"]
VERBS = {"read": ["look at", "read"], "write": ["push to", "work on"], "admin": ["administer", "manage"]}
FORMS = [
    "{n} from {o} needs to {v} {r}.",
    "Please give {n} ({o}) access to {r}, to {v} it.",
    "Access request: {n}, {o} office. Repository {r}. They have to {v} it.",
    "Can {n} of our {o} office get into {r}? It is to {v} it.",
]

TOOLBOX = {
    "find_people": ("Find people by name", ["name"]),
    "get_person": ("Show a person", ["person"]),
    "grant_access": ("Grant a person access to a repository", ["person", "repository", "level"]),
    "request_nda": ("Send a person the NDA to sign", ["person"]),
}
LEVELS = ["read", "write", "admin"]


def case(seed):
    rng = random.Random(seed * 31 + 5)
    name = rng.choice(NAMES)
    offices = rng.sample(OFFICES, rng.choice([2, 3]))
    people = [
        Person(f"u{rng.randrange(10000, 99999)}", name, o, rng.choice(TEAMS), rng.choice(["employee", "contractor"]), rng.random() < 0.6)
        for o in offices
    ]
    meant = rng.choice(people)
    asked = rng.choice(LEVELS)
    repo = rng.choice(REPOS)
    text = rng.choice(FORMS).format(n=name, o=meant.office, r=repo, v=rng.choice(VERBS[asked]))
    return people, meant, asked, repo, text


def right(meant, asked, repo):
    if not meant.nda:
        return ("request_nda", {"person": meant.id})
    return ("grant_access", {"person": meant.id, "repository": repo, "level": asked if meant.contract == "employee" else "read"})


class World:
    pass


w = World()


def tools():
    def prop(key):
        return {"type": "string", "enum": LEVELS} if key == "level" else {"type": "string"}

    return [
        {"type": "function", "function": {"name": n, "description": d, "parameters": {"type": "object", "properties": {k: prop(k) for k in keys}, "required": keys}}}
        for n, (d, keys) in TOOLBOX.items()
    ]


def reset(seed):
    w.people, w.meant, w.asked, w.repo, w.text = case(seed)
    w.by_id = {p.id: p for p in w.people}
    w.opened, w.changes, w.bad, w.end, w.turns = [], [], 0, "", 0
    return [{"role": "system", "content": POLICY}, {"role": "user", "content": w.text}]


def reply(name, args):
    if name not in TOOLBOX:
        return "error: no such tool"
    keys = TOOLBOX[name][1]
    missing = [k for k in keys if k not in args]
    extra = [k for k in args if k not in keys]
    if missing or extra:
        return "error: " + ", ".join([f"{k} is required" for k in missing] + [f"{k} is not known" for k in extra])
    for k in keys:
        if not isinstance(args[k], str):
            return f"error: {k} is no string"
    if "level" in args and args["level"] not in LEVELS:
        return "error: level is one of " + ", ".join(LEVELS)
    if "repository" in args and args["repository"] not in REPOS:
        return "error: repository not found"
    if name == "find_people":
        found = [p for p in w.people if args["name"].strip().lower() in p.name.lower() and args["name"].strip()]
        return "".join(f"- id: {p.id}\n  name: {p.name}\n" for p in found) or "[]"
    if args["person"] not in w.by_id:
        return "error: person not found"
    p = w.by_id[args["person"]]
    if name == "get_person":
        w.opened.append(p.id)
        return f"id: {p.id}\nname: {p.name}\noffice: {p.office}\nteam: {p.team}\ncontract: {p.contract}\nnda_signed: {'true' if p.nda else 'false'}\n"
    w.changes.append((name, args))
    return "status: ok"


def step(message):
    w.turns += 1
    calls = message.get("tool_calls") or []
    w.end = (message.get("content") or "") if not calls else ""
    out = []
    for c in calls:
        text = reply(c["name"], c["arguments"])
        row = dict(role="tool", tool_call_id=c["id"], tool_name=c["name"], content=text)
        if text.startswith("error: "):
            w.bad += 1
            row["is_error"] = True
        out.append(row)
    return dict(messages=out, done=not calls, truncated=w.turns >= 12 and bool(calls))


def verdict():
    saw = w.meant.id in w.opened
    ok = w.changes == [right(w.meant, w.asked, w.repo)]
    person_ok = len(w.changes) == 1 and w.changes[0][1]["person"] == w.meant.id
    good = saw and ok and bool(w.end)
    if good:
        reward = 1.0
    else:
        reward = 0.2 * saw + 0.2 * (saw and person_ok) + 0.3 * (saw and ok)
        reward -= 0.05 * w.bad
        if len(w.changes) > 1:
            reward = 0.0
    check = dict(name="access", kind="state", passed=good, score=None, gates=True, detail="")
    return dict(reward=max(0.0, float(reward)), success=good, checks=[check])


def oracle(seed):
    people, meant, asked, repo, _ = case(seed)
    steps = [[("find_people", {"name": meant.name})], [("get_person", {"person": p.id}) for p in people], [right(meant, asked, repo)]]
    script, k = [], 0
    for group in steps:
        calls = []
        for n, a in group:
            k += 1
            calls.append({"id": f"x{k}", "name": n, "arguments": a})
        script.append({"role": "assistant", "content": None, "tool_calls": calls})
    script.append({"role": "assistant", "content": "That is settled.", "tool_calls": []})
    return script
