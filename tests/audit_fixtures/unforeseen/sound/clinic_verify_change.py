"""Clinic: look again after a change, since a change may not take."""

import json
import random
from dataclasses import dataclass, field

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You keep the calendar of a clinic. The booking system now and then drops a change without a word. After you have moved an
appointment, look at it again; if the change did not take, move it once more. If it has not taken the second time either,
leave it and tell the patient that the desk will call. Then end with a message."""

TOOLS = [
    _t("get_appointment", "Show an appointment.", ["appointment"], appointment="string"),
    _t("list_day", "All appointments of a day.", ["date"], date="string"),
    _t("move_appointment", "Move an appointment.", ["appointment", "date", "time"], appointment="string", date="string", time="string"),
]


@dataclass
class Calendar:
    request: str
    key: str
    old: dict
    new: dict
    drops: int
    reply: str = ""
    finished: bool = False
    turns: int = 0
    errors: int = 0
    moves: list = field(default_factory=list)
    now: dict = field(default_factory=dict)
    looks: set = field(default_factory=set)

    def call(self, name, given):
        if name == "list_day":
            mine = self.now["date"] == given["date"]
            if given["date"] in (self.old["date"], self.new["date"]):
                self.looks.add(len(self.moves))
            return [{"appointment": self.key, **self.now}] if mine else []
        if given["appointment"] != self.key:
            raise Refused("no such appointment")
        if name == "get_appointment":
            self.looks.add(len(self.moves))
            return {"appointment": self.key, **self.now}
        self.moves.append(({"date": given["date"], "time": given["time"]}, len(self.moves) in self.looks))
        if len(self.moves) > self.drops:
            self.now = dict(self.moves[-1][0])
        return {"status": "received"}

    def checks(self):
        needed = min(self.drops + 1, 2)
        asked = [m for m, _ in self.moves]
        moved = asked[:1] == [self.new]
        again = moved and 1 in self.looks and all(seen for _, seen in self.moves[1:])
        right = again and asked == [self.new] * needed and needed in self.looks
        return [("moved", "state", moved, 1), ("looked_again", "action", again, 2), ("as_often_as_needed", "state", right, 2)]


def begin(seed):
    rng = random.Random(f"calendar.{seed}")
    key = f"AP{rng.randint(10000, 99999)}"
    old = {"date": f"2025-05-{rng.randint(10, 28)}", "time": f"{rng.randint(8, 16):02}:00"}
    new = {"date": f"2025-06-{rng.randint(10, 28)}", "time": f"{rng.randint(8, 16):02}:30"}
    text = rng.choice(["Please move {k} to {date}, {time}.", "Can {k} be on {date} at {time} instead?", "I need {k} on {date}, {time}."])
    return Calendar(text.format(k=key, **new), key, old, new, [0, 1, 0, 2, 0, 1][seed % 6], now=dict(old))


def plan(desk):
    look, move = ("get_appointment", {"appointment": desk.key}), ("move_appointment", {"appointment": desk.key, **desk.new})
    last = "It did not take; the desk will call you." if desk.drops == 2 else "Your appointment is moved."
    return [*[move, look] * min(desk.drops + 1, 2), last]


class Refused(Exception):
    pass


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


NOW = []


def tools():
    return TOOLS


def reset(seed):
    NOW.clear()
    NOW.append(begin(int(seed)))
    return [{"role": "system", "content": POLICY}, {"role": "user", "content": NOW[0].request}]


def step(message):
    desk = NOW[0]
    desk.turns += 1
    calls = message.get("tool_calls") or []
    if not calls:
        desk.reply = message.get("content") or ""
        desk.finished = True
        return {"messages": [], "done": True, "truncated": False}
    answers = []
    for call in calls:
        given = call.get("arguments") or {}
        answer = {"role": "tool", "tool_call_id": call["id"], "tool_name": call["name"]}
        try:
            mistake = _mistake(call["name"], given)
            if mistake:
                raise Refused(mistake)
            answer["content"] = json.dumps(desk.call(call["name"], given))
        except Refused as refused:
            desk.errors += 1
            answer["content"] = json.dumps({"error": str(refused)})
            answer["is_error"] = True
        answers.append(answer)
    return {"messages": answers, "done": False, "truncated": desk.turns >= 24}


def verdict():
    desk = NOW[0]
    checks = [*desk.checks(), ("said_something", "protocol", desk.finished and bool(desk.reply.strip()), 0)]
    passed = all(one[2] for one in checks)
    points = sum(one[3] for one in checks if one[2]) / sum(one[3] for one in checks)
    value = 1.0 - 0.05 * desk.errors if passed else 0.5 * points - 0.05 * desk.errors
    return {
        "reward": float(max(0.0, 0.5 if passed else 0.0, min(1.0, value))),
        "success": bool(passed),
        "checks": [
            {"name": a, "kind": b, "passed": bool(c), "score": float(bool(c)), "gates": True, "detail": f"{a}: {bool(c)}"}
            for a, b, c, _ in checks
        ],
    }


def oracle(seed):
    turns = plan(begin(int(seed)))
    return [
        {"role": "assistant", "content": turn, "tool_calls": []}
        if isinstance(turn, str)
        else {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": f"o{n}", "name": turn[0], "arguments": turn[1]}],
        }
        for n, turn in enumerate(turns)
    ]
