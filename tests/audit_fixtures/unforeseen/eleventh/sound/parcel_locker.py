"""Parcels that lie in a locker, told in XML; one class that plays an episode."""

import random


class Locker:
    RULES = (
        "Parcel lockers. A parcel that has been lying for more than 7 days is sent back with send_back, unless its recipient has asked "
        "for an extension. Any other parcel stays and is confirmed with keep_parcel. View the parcel before. One action a parcel, and "
        "report to the courier when it is done."
    )
    TOOLS = {"view_parcel": "View a parcel in the locker.", "send_back": "Send a parcel back to its sender.", "keep_parcel": "Confirm that a parcel stays."}

    def __init__(self, seed):
        r = random.Random(seed * 3 + 1)
        self.code = "".join(r.choice("BCDFGHJKLMNPQRSTVWXZ") for _ in range(3)) + str(r.randrange(1000, 10000))
        self.lying = r.choice([r.randrange(1, 7), 7, 8, r.randrange(9, 25), r.randrange(8, 20), r.randrange(8, 15)])
        self.extension = "yes" if r.random() < 0.36 else "no"
        self.size, self.box = r.choice("SML"), r.randrange(1, 80)
        self.ask = r.choice(["Box check: what happens to {}?", "{} is still here. Deal with it.", "Courier at the station. Parcel {} please.", "Shall I take {} along?", "Parcel {}: stays or goes?"]).format(self.code)
        self.viewed, self.done, self.wrong, self.closed, self.turns = False, [], 0, None, 0

    @property
    def due(self):
        return "send_back" if self.lying > 7 and self.extension == "no" else "keep_parcel"

    def call(self, name, arguments):
        if name not in self.TOOLS:
            return "<fault>no such tool</fault>", True
        if arguments != {"code": self.code}:
            return "<fault>no such parcel</fault>", True
        if name == "view_parcel":
            self.viewed = True
            return f'<parcel code="{self.code}" box="{self.box}" size="{self.size}"><lying unit="days">{self.lying}</lying><extension>{self.extension}</extension></parcel>', False
        self.done.append((name, self.viewed))
        return "<done/>", False

    def step(self, message):
        self.turns += 1
        out = []
        for c in message.get("tool_calls") or []:
            text, bad = self.call(c["name"], c["arguments"])
            self.wrong += bad
            out.append({"role": "tool", "tool_call_id": c["id"], "tool_name": c["name"], "content": text, **({"is_error": True} if bad else {})})
        if not out:
            self.closed = (message.get("content") or "").strip()
        return {"messages": out, "done": not out, "truncated": bool(out) and self.turns > 11}

    def points(self):
        stages = [self.done[:1] == [(self.due, True)], len(self.done) == 1, bool(self.closed)]
        if all(stages):
            return 1.0
        return max(0.0, (0.5 if stages[0] and stages[1] else 0.1 if self.viewed else 0.0) - 0.1 * self.wrong)


GAME = None


def tools():
    p = {"type": "object", "properties": {"code": {"type": "string", "description": "code of the parcel"}}, "required": ["code"]}
    return [{"type": "function", "function": {"name": n, "description": t, "parameters": p}} for n, t in Locker.TOOLS.items()]


def reset(seed):
    global GAME
    GAME = Locker(seed)
    return [{"role": "system", "content": Locker.RULES}, {"role": "user", "content": GAME.ask}]


def step(message):
    return GAME.step(message)


def verdict():
    p = GAME.points()
    return {"reward": p, "success": p == 1.0, "checks": [{"name": "handled", "kind": "action", "passed": p == 1.0, "score": p, "gates": True, "detail": ""}]}


def oracle(seed):
    g = Locker(seed)
    last = "It goes back to the sender." if g.due == "send_back" else "It stays in the box."
    return [
        {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "name": "view_parcel", "arguments": {"code": g.code}}]},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "2", "name": g.due, "arguments": {"code": g.code}}]},
        {"role": "assistant", "content": last, "tool_calls": []},
    ]
