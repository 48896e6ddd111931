"""An airport gives gates to aircraft by their span; the plan is a table with tabs. A class whose tools are its methods."""

import random


class Apron:
    RULES = (
        "Gate desk. An aircraft may stand at a gate only if the gate is open, nothing else is planned there at its time, and the gate's "
        "greatest span is no less than the aircraft's. Of the gates that will do, take the one with the smallest greatest span, so that wide "
        "gates stay free. Where none will do, send it to the remote stand (send_remote). Look at the flight and at the gates first, act once, "
        "and confirm."
    )
    SCHEMAS = {
        "flight": ("Show a flight.", ["flight"]),
        "gates": ("Show the gates as they are at an hour.", ["hour"]),
        "assign": ("Give a gate to a flight.", ["flight", "gate"]),
        "send_remote": ("Send a flight to the remote stand.", ["flight"]),
    }

    def __init__(self, seed):
        d = random.Random(str(seed) + "apron")
        self.code = d.choice(["KX", "VB", "OQ", "ZP"]) + str(d.randrange(100, 9999))
        self.span, self.hour = d.randrange(24, 66), f"{d.randrange(5, 23):02d}:00"
        spans = d.sample(range(22, 81), d.choice([4, 5, 6]))
        none = d.random() < 0.42
        self.rows = []
        for n, wide in enumerate(spans):
            state, taken = d.choice(["open", "open", "open", "closed"]), d.choice(["-", "-", "-", "QQ" + str(d.randrange(100, 999))])
            if none and wide >= self.span and state == "open" and taken == "-":
                state, taken = d.choice([("closed", "-"), ("open", "QQ" + str(d.randrange(100, 999)))])
            self.rows.append((f"{d.choice('ABCD')}{10 + n}", wide, state, taken))
        if not none and self.best() is None:
            self.rows[0] = (self.rows[0][0], 85, "open", "-")
        d.shuffle(self.rows)
        self.hello = d.choice(["{f} lands soon, where to?", "A stand for {f}, please.", "Tower asks about {f}.", "{f} is on final."]).format(f=self.code)
        self.seen, self.deeds, self.wrong, self.n, self.end = set(), [], 0, 0, False

    def best(self):
        good = [r for r in self.rows if r[1] >= self.span and r[2] == "open" and r[3] == "-"]
        return min(good, key=lambda r: r[1])[0] if good else None

    def due(self):
        return ("assign", {"flight": self.code, "gate": self.best()}) if self.best() else ("send_remote", {"flight": self.code})

    def call(self, name, given):
        if name not in self.SCHEMAS or sorted(given) != sorted(self.SCHEMAS[name][1]) or any(not isinstance(v, str) for v in given.values()):
            return None
        if given.get("flight", self.code) != self.code or given.get("hour", self.hour) != self.hour:
            return None
        if name == "flight":
            self.seen.add(name)
            return f"flight\tspan_m\thour\n{self.code}\t{self.span}\t{self.hour}"
        if name == "gates":
            self.seen.add(name)
            return "\n".join(["gate\tgreatest_span_m\tstate\tplanned", *("\t".join(map(str, r)) for r in self.rows)])
        if name == "assign" and given["gate"] not in [r[0] for r in self.rows]:
            return None
        self.deeds.append((name, given, len(self.seen)))
        return "ok"


apron = None


def tools():
    return [
        {"type": "function", "function": {"name": n, "description": d, "parameters": {"type": "object", "properties": {k: {"type": "string"} for k in a}, "required": a}}}
        for n, (d, a) in Apron.SCHEMAS.items()
    ]


def reset(seed):
    global apron
    apron = Apron(seed)
    return [{"role": "system", "content": Apron.RULES}, {"role": "user", "content": apron.hello}]


def step(message):
    apron.n += 1
    out = []
    for one in message.get("tool_calls") or []:
        text = apron.call(one["name"], one["arguments"])
        apron.wrong += text is None
        back = {"role": "tool", "tool_call_id": one["id"], "tool_name": one["name"], "content": text or "ERR"}
        out.append(back if text else {**back, "is_error": True, "content": "error: cannot be done"})
    apron.end = not out
    return {"messages": out, "done": not out, "truncated": bool(out) and apron.n > 11}


def verdict():
    right = [(n, a) for n, a, _ in apron.deeds] == [apron.due()]
    seen = bool(apron.deeds) and apron.deeds[0][2] == 2
    parts = {"seen": seen, "deed": right, "confirmed": apron.end}
    success = all(parts.values())
    part = 0.0 if not seen or len(apron.deeds) != 1 else 0.7 if right else 0.25
    return {
        "reward": 1.0 if success else max(0.0, part - 0.1 * apron.wrong),
        "success": success,
        "checks": [{"name": k, "kind": "action", "passed": v, "score": None, "gates": True, "detail": ""} for k, v in parts.items()],
    }


def oracle(seed):
    a = Apron(seed)
    calls = [("flight", {"flight": a.code}), ("gates", {"hour": a.hour}), a.due()]
    return [{"role": "assistant", "content": None, "tool_calls": [{"id": n, "name": n, "arguments": g}]} for n, g in calls] + [
        {"role": "assistant", "content": "Confirmed.", "tool_calls": []}
    ]
