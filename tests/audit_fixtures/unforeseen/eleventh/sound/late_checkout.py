"""Late check-outs of a hotel, told in a Markdown table; an object with one method per tool."""

import random

BRIEF = (
    "Reception. A guest may check out late (allow_late) if the guest has gold status or if the room is not taken again on the same day. On Sundays nobody may check out late. "
    "Where late check-out is not possible, say no with deny_late. Look at the stay with look_at_stay before, decide with one call, and then reply to the guest."
)
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


class Desk:
    def __init__(self, seed):
        self.r = r = random.Random(seed)
        r.random(), r.random()
        self.stay = f"R{r.randrange(100, 700)}/{r.randrange(1000, 10000)}"
        self.status = r.choice(["gold", "gold", "silver", "none"])
        self.taken = r.choice(["yes", "no"])
        self.day = r.choice([*DAYS, "Sunday"])
        self.ask = r.choice(["Could I stay until three? My stay is {}.", "Is a late check-out possible for {}?", "Stay {}: my train leaves at five, may I keep the room?", "{} - I would like to leave later."]).format(self.stay)
        self.acts, self.knows, self.misses, self.reply = [], False, 0, None

    def due(self):
        if self.day == "Sunday":
            return "deny_late"
        return "allow_late" if self.status == "gold" or self.taken == "no" else "deny_late"

    def look_at_stay(self):
        self.knows = True
        return f"| stay | guest status | departure | room taken again that day |\n|---|---|---|---|\n| {self.stay} | {self.status} | {self.day} | {self.taken} |"

    def allow_late(self):
        self.acts.append(("allow_late", self.knows))
        return "| result |\n|---|\n| allowed |"

    def deny_late(self):
        self.acts.append(("deny_late", self.knows))
        return "| result |\n|---|\n| denied |"

    def use(self, name, given):
        own = {"look_at_stay": self.look_at_stay, "allow_late": self.allow_late, "deny_late": self.deny_late}
        if name in own and given == {"stay": self.stay}:
            return own[name](), False
        self.misses += 1
        return "| error |\n|---|\n| no such stay or tool |", True

    def grade(self):
        done = self.acts == [(self.due(), True)]
        if done and self.reply:
            return 1.0
        return max(0.0, (0.6 if done else 0.2 * (self.knows and not self.acts)) - 0.1 * self.misses)


desk = Desk(0)
left = 12


def tools():
    says = {"look_at_stay": "Look at a stay.", "allow_late": "Allow a late check-out.", "deny_late": "Deny a late check-out."}
    return [{"type": "function", "function": {"name": n, "description": s, "parameters": {"type": "object", "properties": {"stay": {"type": "string"}}, "required": ["stay"]}}} for n, s in says.items()]


def reset(seed):
    global desk, left
    desk, left = Desk(seed), 12
    return [{"role": "system", "content": BRIEF}, {"role": "user", "content": desk.ask}]


def step(message):
    global left
    left -= 1
    out = []
    for c in message.get("tool_calls") or []:
        text, bad = desk.use(c["name"], c["arguments"])
        out.append({"role": "tool", "tool_call_id": c["id"], "tool_name": c["name"], "content": text, **({"is_error": True} if bad else {})})
    if not out:
        desk.reply = message.get("content") or " "
    return {"messages": out, "done": not out, "truncated": bool(out) and left <= 0}


def verdict():
    g = desk.grade()
    return {"reward": g, "success": g == 1.0, "checks": [{"name": "late", "kind": "action", "passed": g == 1.0, "score": g, "gates": True, "detail": ""}]}


def oracle(seed):
    d = Desk(seed)
    call = [{"role": "assistant", "content": None, "tool_calls": [{"id": n, "name": n, "arguments": {"stay": d.stay}}]} for n in ("look_at_stay", d.due())]
    return [*call, {"role": "assistant", "content": "Of course, keep the room." if d.due() == "allow_late" else "I am sorry, that is not possible.", "tool_calls": []}]
