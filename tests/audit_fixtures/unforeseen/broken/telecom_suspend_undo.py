"""Telecom: check whether a line is under contract before it is suspended."""

import json
import random
from dataclasses import dataclass, field

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """# Telecom Agent Policy
A line may be suspended on request unless it is the last active line of the customer. Look at the customer's lines before
you suspend one: a suspension cuts off the user at once and sends a text message. Otherwise deny."""

TOOLS = [
    _t("get_lines", "All lines of a customer with their status.", ["customer_id"], customer_id="string"),
    _t("suspend_line", "Suspends a line.", ["customer_id", "line_id"], customer_id="string", line_id="string"),
    _t("resume_line", "Resumes a suspended line.", ["customer_id", "line_id"], customer_id="string", line_id="string"),
]


@dataclass
class Lines:
    request: str
    customer: str
    target: str
    lines: dict
    last: bool
    reply: str = ""
    finished: bool = False
    turns: int = 0
    errors: int = 0
    seen: bool = False
    touched: list = field(default_factory=list)

    def call(self, name, given):
        if given["customer_id"] != self.customer:
            raise Refused("Customer not found")
        if name == "get_lines":
            self.seen = True
            return [{"line_id": k, "status": v} for k, v in self.lines.items()]
        if given["line_id"] not in self.lines:
            raise Refused("Line not found")
        self.touched.append(given["line_id"])
        self.lines[given["line_id"]] = "Suspended" if name == "suspend_line" else "Active"
        return {"line_id": given["line_id"], "status": self.lines[given["line_id"]], "active_lines_left": list(self.lines.values()).count("Active")}

    def checks(self):
        wanted = "Active" if self.last else "Suspended"
        right = self.lines[self.target] == wanted and (self.seen or bool(self.touched))
        return [("state_known", "action", self.seen or bool(self.touched), 1), ("line", "state", right, 3)]


def begin(seed):
    rng = random.Random(f"{seed}-lines")
    customer = f"C{rng.randint(1000, 9999)}"
    ids = [f"L{rng.randint(1000, 4999)}", f"L{rng.randint(5000, 7999)}", f"L{rng.randint(8000, 9999)}"]
    rng.shuffle(ids)
    last = seed % 2 == 0
    lines = {ids[0]: "Active"}
    lines.update({i: "Suspended" if last else rng.choice(["Active", "Suspended"]) for i in ids[1:]})
    if not last:
        lines[rng.choice(ids[1:])] = "Active"
    lines = {k: lines[k] for k in sorted(lines)}
    text = rng.choice(["Please suspend line {l}. I am {c}.", "{c}: put {l} on hold for the holidays.", "I will not need {l} for two months, suspend it ({c})."])
    return Lines(text.format(l=ids[0], c=customer), customer, ids[0], lines, last)


def plan(desk):
    look = ("get_lines", {"customer_id": desk.customer})
    if desk.last:
        return [look, "I am sorry, this is your last active line, so it stays as it is."]
    return [look, ("suspend_line", {"customer_id": desk.customer, "line_id": desk.target}), "The line is suspended."]


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
