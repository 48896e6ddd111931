"""Set a lamp as the room needs it. Truth values and enums that depend on what was looked up."""

import random
from typing import Any

RULE = "A bright room needs its lamp off. A dark one needs it on: warm in the evening, cold in the morning."
MODES = ["warm", "cold"]
WISHES = ["set the lamp in", "see to the light in", "please adjust", "fix the light in", "take care of", "do"]
TIMES = ["morning", "evening"]
TAILS = ["", " please", " now", " today", ", thanks"]
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "get_room": ("Show a room.", {"room": {"type": "string"}}),
    "set_lamp": (
        "Set a room's lamp.",
        {"room": {"type": "string"}, "on": {"type": "boolean"}, "mode": {"type": "string", "enum": MODES}},
    ),
    "call_porter": ("Call the porter to a room.", {"room": {"type": "string"}}),
}
TYPES = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
episode: dict[str, Any] = {}


def tools() -> list[dict[str, Any]]:
    """Show, set, call the porter."""
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
    """A room, dark or bright, and a lamp."""
    rng = random.Random(seed)
    room = f"H{rng.randrange(100000)}"
    dark, broken, when = rng.random() < 0.5, seed % 3 == 0, rng.choice(TIMES)
    text = f"Good {when}, {rng.choice(WISHES)} {room}{rng.choice(TAILS)}."
    return {"room": room, "dark": dark, "when": when, "broken": broken, "request": text, "stray": 0}


def wanted(now: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The change that is called for."""
    room = {"room": now["room"]}
    if now["broken"]:
        return "call_porter", room
    return "set_lamp", {**room, "on": now["dark"], "mode": MODES[now["when"] == "morning"]}


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
    if arguments["room"] != episode["room"]:
        return "no such room", True
    if name == "get_room":
        episode["looked"].append(name)
        light = "dark" if episode["dark"] else "bright"
        return f"{light}, {episode['when']}, lamp {'broken' if episode['broken'] else 'fine'}", False
    episode["writes"].append((name, arguments))
    episode["stray"] += len(episode["writes"]) > 1
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
    settled = looked and episode["writes"] == [wanted(episode)]
    word = "porter" if episode["broken"] else "set"
    return {"looked": looked, "settled": settled, "told": settled and word in episode["reply"]}


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
    """Look, set or call."""
    now = scene(seed)
    calls = [("get_room", {"room": now["room"]}), wanted(now)]
    words = "The porter is on the way." if now["broken"] else "The lamp is set."
    turns: list[dict[str, Any]] = [
        {"role": "assistant", "tool_calls": [{"id": f"call_{n}", "name": name, "arguments": arguments}]}
        for n, (name, arguments) in enumerate(calls, start=1)
    ]
    return [*turns, {"role": "assistant", "content": words}]
