"""An agency books interpreters; what the client leaves out must be asked for. Closures, a client that answers, INI text."""

import random

HOUSE = (
    "Agency for interpreters. A booking needs a language, a date, and whether the interpreter must be sworn. Clients often leave one or two of "
    "these out. Ask the client for whatever is missing; never guess it. Then search (find) with the three, and book the cheapest "
    "interpreter that is listed with free=yes. If none is listed with free=yes, put the client on the waiting list (waitlist) with the three. "
    "Finish with a message to the client."
)
LANGS = ["Tigrinya", "Farsi", "Polish", "Khmer", "Basque", "Hausa", "Tamil", "Dari", "Latvian", "Wolof"]
MONTHS = ["January", "March", "April", "June", "August", "October"]
PEOPLE = ["Anouk", "Bashir", "Celia", "Daud", "Elif", "Faye", "Gita", "Hugo", "Ilse", "Jaap", "Kamal", "Lotte"]


def plan(seed):
    rng = random.Random("%x" % (seed * 2654435761))
    month = rng.randrange(len(MONTHS))
    day = rng.randrange(1, 29)
    facts = {
        "language": rng.choice(LANGS),
        "date": f"2026-{[1, 3, 4, 6, 8, 10][month]:02d}-{day:02d}",
        "sworn": rng.choice(["yes", "no"]),
    }
    spoken = {
        "language": f"{facts['language']}",
        "date": f"{day} {MONTHS[month]} 2026 ({facts['date']})",
        "sworn": "sworn: yes" if facts["sworn"] == "yes" else "sworn: no",
    }
    hidden = rng.sample(sorted(facts), rng.choice([1, 1, 2]))
    clauses = {
        "language": f"into {spoken['language']}",
        "date": f"on {spoken['date']}",
        "sworn": "by a sworn person" if facts["sworn"] == "yes" else "(not sworn)",
    }
    said = " ".join(clauses[k] for k in ("language", "date", "sworn") if k not in hidden)
    hello = rng.choice(["I need an interpreter {x}.", "Could you arrange interpreting {x}, please?", "We have a hearing and want interpreting {x}.", "Interpreting {x}. Can you help?"])
    full = rng.random() < 0.45
    people = []
    for who in rng.sample(PEOPLE, rng.choice([2, 3, 4])):
        people.append({"who": who, "id": f"i{rng.randrange(10**5):05d}", "fee": 10 * rng.randrange(8, 60), "free": "no" if full else rng.choice(["yes", "no"])})
    if not full:
        rng.choice(people)["free"] = "yes"
    seen = set()
    for one in people:
        while one["fee"] in seen:
            one["fee"] += 10
        seen.add(one["fee"])
    return facts, spoken, hidden, hello.format(x=said), people


def game(seed):
    facts, spoken, hidden, hello, people = plan(seed)
    known, found, acts, wrong, turns, closed = set(facts) - set(hidden), [], [], [0], [0], [False]

    def fault(text):
        wrong[0] += 1
        return {"content": "; " + text, "is_error": True}

    def find(language, date, sworn):
        if {"language": language, "date": date, "sworn": sworn} != facts:
            return {"content": "[result]\ncount=0"}
        if known >= set(facts):
            found.append(True)
        text = f"[result]\ncount={len(people)}"
        for p in people:
            text += f"\n[{p['id']}]\nname={p['who']}\nfee={p['fee']}\nfree={p['free']}"
        return {"content": text}

    def book(interpreter):
        if interpreter not in [p["id"] for p in people]:
            return fault("no such interpreter")
        acts.append(("book", interpreter, bool(found)))
        return {"content": f"[booked]\ninterpreter={interpreter}"}

    def waitlist(language, date, sworn):
        acts.append(("waitlist", (language, date, sworn), bool(found)))
        return {"content": "[waitlist]\nadded=yes"}

    names = {"find": (find, ("language", "date", "sworn")), "book": (book, ("interpreter",)), "waitlist": (waitlist, ("language", "date", "sworn"))}

    def call(name, given):
        if name not in names:
            return fault("no such command")
        run, wants = names[name]
        if sorted(given) != sorted(wants) or not all(isinstance(v, str) for v in given.values()):
            return fault("give " + ", ".join(wants))
        return run(**given)

    def listen(text):
        low = text.lower()
        cues = {"language": ("language",), "date": ("date", "day", "when"), "sworn": ("sworn",)}
        asked = [k for k in ("language", "date", "sworn") if any(c in low for c in cues[k])]
        known.update(asked)
        if not asked:
            return "I'm not sure what you mean. What else do you need to know?"
        return "Of course. " + ", ".join(spoken[k] for k in asked) + "."

    free = sorted((p for p in people if p["free"] == "yes"), key=lambda p: p["fee"])
    due = ("book", free[0]["id"]) if free else ("waitlist", (facts["language"], facts["date"], facts["sworn"]))

    def step(message):
        turns[0] += 1
        calls = message.get("tool_calls") or []
        if calls:
            out = [{"role": "tool", "tool_call_id": c["id"], "tool_name": c["name"], **call(c["name"], c["arguments"])} for c in calls]
            return {"messages": out, "done": False, "truncated": turns[0] >= 14}
        if acts:
            closed[0] = True
            return {"messages": [], "done": True, "truncated": False}
        reply = {"role": "user", "content": listen(message.get("content") or "")}
        return {"messages": [reply], "done": False, "truncated": turns[0] >= 14}

    def verdict():
        asked = known >= set(facts)
        right = len(acts) == 1 and acts[0][:2] == due and acts[0][2]
        success = asked and bool(found) and right and closed[0]
        reward = 0.0
        if len(acts) == 1 and acts[0][2]:
            reward = 0.6 if right else 0.2
        elif not acts and found:
            reward = 0.15
        reward = 1.0 if success else max(0.0, reward - 0.05 * wrong[0])
        rows = [("knows all three", "communicate", asked), ("searched", "action", bool(found)), ("booked or listed rightly", "state", right), ("closed", "protocol", closed[0])]
        return {"reward": reward, "success": success, "checks": [{"name": n, "kind": k, "passed": p, "score": None, "gates": True, "detail": ""} for n, k, p in rows]}

    return hello, step, verdict


HOOKS = {}


def tools():
    three = {
        "language": {"type": "string", "description": "into which language"},
        "date": {"type": "string", "description": "YYYY-MM-DD"},
        "sworn": {"type": "string", "enum": ["yes", "no"], "description": "whether the interpreter must be sworn"},
    }
    specs = [
        ("find", "Search the interpreters for a booking.", three),
        ("book", "Book an interpreter of the last search.", {"interpreter": {"type": "string", "description": "id"}}),
        ("waitlist", "Put the client on the waiting list.", three),
    ]
    return [{"type": "function", "function": {"name": n, "description": d, "parameters": {"type": "object", "properties": p, "required": list(p)}}} for n, d, p in specs]


def reset(seed):
    hello, HOOKS["step"], HOOKS["verdict"] = game(seed)
    return [{"role": "system", "content": HOUSE}, {"role": "user", "content": hello}]


def step(message):
    return HOOKS["step"](message)


def verdict():
    return HOOKS["verdict"]()


def oracle(seed):
    facts, _, hidden, _, people = plan(seed)
    words = {"language": "Which language do you need?", "date": "On which date is it?", "sworn": "Must the interpreter be sworn?"}
    free = sorted((p for p in people if p["free"] == "yes"), key=lambda p: p["fee"])
    last = ("book", {"interpreter": free[0]["id"]}) if free else ("waitlist", dict(facts))
    bye = "It is booked." if free else "Nobody is free, you are on the waiting list."
    script = [(" ".join(words[h] for h in hidden), []), (None, [("find", dict(facts))]), (None, [last]), (bye, [])]
    return [
        {"role": "assistant", "content": text, "tool_calls": [{"id": f"n{i}{j}", "name": n, "arguments": a} for j, (n, a) in enumerate(calls)]}
        for i, (text, calls) in enumerate(script)
    ]
