"""Renew a loan, or refuse in words when it is reserved. A refusal without any change."""

import random
from typing import Any

RULE = "Renew a loan unless somebody has reserved the book: then refuse, and say so."
WISHES = [
    "renew",
    "extend",
    "prolong",
    "please renew",
    "could you extend",
    "i want to keep",
    "i need longer with",
]
PLACES = ["at home", "abroad", "in bed", "on a train", "at work", "on holiday", "in town"]
LOAN: dict[str, Any] = {"loan": {"type": "string"}}
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "get_loan": ("Show a loan.", LOAN),
    "renew_loan": ("Renew a loan.", LOAN),
    "end_loan": ("End a loan.", LOAN),
}
TYPES = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
episode: dict[str, Any] = {}


def tools() -> list[dict[str, Any]]:
    """Show, renew, end."""
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": text,
                "parameters": {"type": "object", "properties": parameters, "required": list(parameters)},
            },
        }
        for name, (text, parameters) in TOOLS.items()
    ]


def scene(seed: int) -> dict[str, Any]:
    """A loan, reserved or not."""
    rng = random.Random(seed)
    loan = f"L{rng.randrange(100000)}"
    text = f"I am {rng.choice(PLACES)}; {rng.choice(WISHES)} {loan}."
    return {"loan": loan, "reserved": seed % 2 == 0, "request": text, "stray": 0}


def reset(seed: int) -> list[dict[str, Any]]:
    """Begin."""
    episode.clear()
    episode.update(scene(seed), looked=[], writes=[], bad=0, reply="", done=False)
    return [{"role": "system", "content": RULE}, {"role": "user", "content": episode["request"]}]


def refusal(name: str, arguments: dict[str, Any]) -> str:
    """Why the tools' schemas forbid a call, empty when they allow it."""
    if name not in TOOLS:
        return f"there is no tool {name}"
    for key, schema in TOOLS[name][1].items():
        if key not in arguments:
            return f"{key} is missing"
        if type(arguments[key]) is not TYPES[schema["type"]]:
            return f"{key} is not of type {schema['type']}"
        if arguments[key] not in schema.get("enum", [arguments[key]]):
            return f"{key} is not one of {schema['enum']}"
    return ""


def act(name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
    """Carry out a call; return the answer, and whether it is an error."""
    if arguments["loan"] != episode["loan"]:
        return "no such loan", True
    if name == "get_loan":
        episode["looked"].append(name)
        return "reserved" if episode["reserved"] else "free", False
    episode["writes"].append(name)
    episode["stray"] += episode["writes"] != ["renew_loan"] or episode["reserved"]
    return "ok", False


def step(message: dict[str, Any]) -> dict[str, Any]:
    """Apply one assistant message."""
    calls = message.get("tool_calls") or []
    if not calls:
        episode.update(reply=(message.get("content") or "").lower(), done=True)
        return {"messages": [], "done": True, "truncated": False}
    results = []
    for call in calls:
        wrong = refusal(call["name"], call["arguments"])
        content, is_error = (wrong, True) if wrong else act(call["name"], call["arguments"])
        episode["bad"] += is_error
        result = {"role": "tool", "content": content, "tool_call_id": call["id"], "tool_name": call["name"]}
        results.append({**result, "is_error": is_error})
    return {"messages": results, "done": False, "truncated": False}


def judge() -> dict[str, bool]:
    """What was achieved, in the order in which it is."""
    looked = bool(episode["looked"])
    wanted = [] if episode["reserved"] else ["renew_loan"]
    settled = looked and episode["writes"] == wanted
    word = "reserved" if episode["reserved"] else "renewed"
    told = settled and episode["done"] and word in episode["reply"]
    return {"looked": looked, "settled": settled, "told": told}


def verdict() -> dict[str, Any]:
    """Half of the reward for each share that was achieved, half for all of it; errors and strays cost."""
    found = judge()
    stray = episode["stray"]
    success = all(found.values()) and not stray
    reward = 0.5 * sum(found.values()) / len(found) + 0.5 * success - 0.05 * (episode["bad"] + stray)
    checks = [
        {"name": name, "kind": "state", "passed": passed, "score": None, "gates": True, "detail": ""}
        for name, passed in [*found.items(), ("nothing_else", not stray)]
    ]
    return {"reward": min(1.0, max(0.5 * success, reward)), "success": success, "checks": checks}


def oracle(seed: int) -> list[dict[str, Any]]:
    """Look, then renew or refuse."""
    now = scene(seed)
    loan = {"loan": now["loan"]}
    calls = [("get_loan", loan)] + ([] if now["reserved"] else [("renew_loan", loan)])
    words = "Sorry, it is reserved." if now["reserved"] else "It is renewed."
    turns: list[dict[str, Any]] = [
        {"role": "assistant", "tool_calls": [{"id": f"call_{n}", "name": name, "arguments": arguments}]}
        for n, (name, arguments) in enumerate(calls, start=1)
    ]
    return [*turns, {"role": "assistant", "content": words}]
