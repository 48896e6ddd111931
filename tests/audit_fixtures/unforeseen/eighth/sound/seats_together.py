"""A theatre's box office: seats side by side for a group, read off a plan."""

import random
from dataclasses import dataclass, field

HOUSE_RULES = (
    "Box office. Groups sit side by side in one row: hold the seats with hold_seats. "
    "Look at the plan of the show first; '.' is free, '#' is taken, seats are counted from 1 at the left. "
    "If no row has enough free seats side by side, put the group on the waiting list. Confirm briefly."
)
WIDTH, ROWS = 10, "ABCDEF"


@dataclass
class Night:
    show: str
    size: int
    plan: dict
    text: str
    looked: bool = False
    deeds: list = field(default_factory=list)
    slips: int = 0
    bye: bool = False
    moves: int = 0

    def runs(self):
        """All (row, first seat) with enough free seats side by side."""
        return [(r, i + 1) for r, seats in self.plan.items() for i in range(WIDTH - self.size + 1) if seats[i : i + self.size] == "." * self.size]


def night(seed):
    rng = random.Random(f"box office {seed}")
    size = rng.randint(2, 5)
    show = f"{rng.choice(['HAM', 'OTH', 'LEA', 'MAC'])}{rng.randint(100, 9999)}"
    possible = rng.random() < 0.55
    plan = {}
    for row in ROWS:
        while True:
            seats = "".join(rng.choice(".##") for _ in range(WIDTH))
            if "." * size not in seats:
                break
        plan[row] = seats
    if possible:
        row, at = rng.choice(ROWS), rng.randint(0, WIDTH - size)
        plan[row] = plan[row][:at] + "." * size + plan[row][at + size :]
    text = rng.choice(["We are {n} and would like to see {s}.", "{n} tickets for {s}, next to each other please", "Could you seat {n} of us together in {s}?", "show {s}, {n} people!"])
    return Night(show, size, plan, text.format(n=size, s=show))


now = night(0)


def tools():
    show = {"type": "string"}
    return [
        {"type": "function", "function": {"name": "show_plan", "description": "Seating plan of a show.", "parameters": {"type": "object", "properties": {"show": show}, "required": ["show"]}}},
        {"type": "function", "function": {"name": "hold_seats", "description": "Hold seats of a row.", "parameters": {"type": "object", "properties": {"show": show, "row": {"type": "string", "enum": list(ROWS)}, "seats": {"type": "array", "items": {"type": "integer"}}}, "required": ["show", "row", "seats"]}}},
        {"type": "function", "function": {"name": "join_waiting_list", "description": "Put a group on the waiting list of a show.", "parameters": {"type": "object", "properties": {"show": show, "people": {"type": "integer"}}, "required": ["show", "people"]}}},
    ]


def reset(seed):
    global now
    now = night(seed)
    return [{"role": "system", "content": HOUSE_RULES}, {"role": "user", "content": now.text}]


def whole(value):
    return isinstance(value, int) and not isinstance(value, bool)


def perform(name, a):
    shapes = {"show_plan": {"show"}, "hold_seats": {"show", "row", "seats"}, "join_waiting_list": {"show", "people"}}
    if name not in shapes:
        return None, "no such tool"
    if set(a) != shapes[name]:
        return None, "expected: " + ", ".join(sorted(shapes[name]))
    if a["show"] != now.show:
        return None, "no such show"
    if name == "show_plan":
        now.looked = True
        return "\n".join(f"{r} {s}" for r, s in now.plan.items()), None
    if name == "join_waiting_list":
        if not whole(a["people"]):
            return None, "people: a whole number"
        now.deeds.append(("wait", a["people"]))
        return "on the list", None
    seats = a["seats"]
    if a["row"] not in list(ROWS) or not isinstance(seats, list) or not seats or not all(whole(s) and 1 <= s <= WIDTH for s in seats):
        return None, "row or seats are wrong"
    now.deeds.append(("hold", a["row"], tuple(sorted(seats))))
    return "held", None


def step(message):
    now.moves += 1
    calls = message.get("tool_calls") or []
    if not calls:
        now.bye = bool(message.get("content"))
        return {"messages": [], "done": True, "truncated": False}
    out = []
    for c in calls:
        text, wrong = perform(c["name"], c["arguments"])
        now.slips += wrong is not None
        out.append({"role": "tool", "tool_call_id": c["id"], "tool_name": c["name"], "content": wrong or text, **({"is_error": True} if wrong else {})})
    return {"messages": out, "done": False, "truncated": now.moves > 10}


def good_deed(deed):
    runs = now.runs()
    if deed[0] == "wait":
        return not runs and deed[1] == now.size
    return any(deed == ("hold", r, tuple(range(i, i + now.size))) for r, i in runs)


def verdict():
    right = len(now.deeds) == 1 and good_deed(now.deeds[0])
    steps = [now.looked, now.looked and right, now.looked and right and now.bye]
    reward = [0.0, 0.25, 0.7, 1.0][sum(steps)]
    if now.deeds and not right:
        reward = 0.1 if now.looked else 0.0
    if not steps[2]:
        reward = max(0.0, reward - 0.05 * now.slips)
    return {"reward": reward, "success": steps[2], "checks": [{"name": n, "kind": "state", "passed": p, "score": None, "gates": True, "detail": ""} for n, p in zip(["looked", "seated", "told"], steps)]}


def oracle(seed):
    n = night(seed)
    runs = n.runs()
    if runs:
        row, first = runs[0]
        deed = ("hold_seats", {"show": n.show, "row": row, "seats": list(range(first, first + n.size))})
    else:
        deed = ("join_waiting_list", {"show": n.show, "people": n.size})
    script = [{"role": "assistant", "content": None, "tool_calls": [{"id": f"s{i}", "name": a, "arguments": b}]} for i, (a, b) in enumerate([("show_plan", {"show": n.show}), deed])]
    return [*script, {"role": "assistant", "content": "Your seats are held." if runs else "You are on the waiting list."}]
