"""Telecom: refuel what the user wants, within the maximum."""

import json
import random
from dataclasses import dataclass, field

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """# Telecom Agent Policy
If the data usage of a line exceeds the limit, data can be added by refueling. The maximum amount of data that can be refueled
is 2 GB: a user who wants more gets exactly 2 GB. A line whose limit is not exceeded is not refueled; say so. Check the
usage before. The price is confirmed."""

TOOLS = [
    _t("get_data_usage", "Data usage of a line.", ["line_id"], line_id="string"),
    _t("refuel_data", "Refuels data for a line. At most 2 GB.", ["line_id", "gb_amount"], line_id="string", gb_amount="number"),
    _t("get_plan", "The plan of a line.", ["line_id"], line_id="string"),
]


@dataclass
class Shop:
    request: str
    line: str
    gb: float
    usage: dict
    exceeded: bool
    reply: str = ""
    finished: bool = False
    turns: int = 0
    errors: int = 0
    looked: bool = False
    sold: list = field(default_factory=list)

    def call(self, name, given):
        if given["line_id"] != self.line:
            raise Refused("Line not found")
        if name == "get_plan":
            return {"name": "Basic Plan", "data_limit_gb": self.usage["data_limit_gb"], "price_per_gb": 2.0}
        if name == "get_data_usage":
            self.looked = True
            return self.usage
        self.sold.append((float(given["gb_amount"]), self.looked))
        return {"message": f"Refueled {given['gb_amount']} GB"}

    def checks(self):
        looked = self.looked and all(seen for _, seen in self.sold)
        right = looked and [gb for gb, _ in self.sold] == ([self.gb] if self.exceeded else [])
        return [("usage_read", "action", looked, 1), ("sold", "state", right, 2)]


def begin(seed):
    rng = random.Random(f"cap {seed}")
    line = f"L{rng.randint(10000, 99999)}"
    exceeded = seed % 2 == 0
    limit = rng.choice([3.0, 5.0, 10.0])
    used = round(limit + rng.uniform(0.1, 3) if exceeded else limit * rng.uniform(0.3, 0.9), 1)
    gb = rng.choice([0.5, 1.0, 1.5, 2.0, 2.0, 2.5, 3.0])
    text = rng.choice(["Please add {g} GB to {l}.", "{l} has no data, I want {g} GB.", "I need {g} GB more on my line {l}."])
    return Shop(text.format(g=f"{gb:g}", l=line), line, gb, {"line_id": line, "data_used_gb": used, "data_limit_gb": limit, "data_refueling_gb": 0.0}, exceeded)


def plan(desk):
    look = ("get_data_usage", {"line_id": desk.line})
    if desk.exceeded:
        return [look, ("refuel_data", {"line_id": desk.line, "gb_amount": desk.gb}), f"{desk.gb:g} GB have been added."]
    return [look, "Your limit is not exceeded, so there is nothing to refuel."]


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
