"""Open a hatch after what must come before it, in this order. The order of changes counts."""

import random
from typing import Any

RULE = "Before a hatch is opened, its tank is closed if it flows, then drained if it is full. In this order."
WISHES = ["open the hatch of", "i need to get into", "please open up", "make ready", "let me into", "unseal"]
CREWS = ["crew one", "crew two", "night shift", "day shift", "the lab", "the yard", "maintenance"]
TANK: dict[str, Any] = {"tank": {"type": "string"}}
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "get_tank": ("Show a tank.", TANK),
    "close_inflow": ("Close a tank's inflow.", TANK),
    "drain_tank": ("Drain a tank.", TANK),
    "open_hatch": ("Open a tank's hatch.", TANK),
}
TYPES = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
episode: dict[str, Any] = {}


def tools() -> list[dict[str, Any]]:
    """Show, close, drain, open."""
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
    """A tank that flows or is full; a hatch that works or is broken."""
    rng = random.Random(seed)
    tank = f"T{rng.randrange(100000)}"
    flows, full = rng.random() < 0.5, rng.random() < 0.5
    text = f"{rng.choice(CREWS)} here: {rng.choice(WISHES)} {tank}."
    broken = seed % 2 == 1
    return {"tank": tank, "flows": flows, "full": full, "broken": broken, "request": text, "stray": 0}


def wanted(now: dict[str, Any]) -> list[str]:
    """The changes that are called for, in order."""
    steps = ["close_inflow"] * now["flows"] + ["drain_tank"] * now["full"]
    return steps if now["broken"] else [*steps, "open_hatch"]


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
    if arguments["tank"] != episode["tank"]:
        return "no such tank", True
    if name == "get_tank":
        episode["looked"].append(name)
        state = [word for word in ("flows", "full", "broken") if episode[word]]
        return ", ".join(state) or "calm", False
    episode["writes"].append(name)
    episode["stray"] += episode["writes"] != wanted(episode)[: len(episode["writes"])]
    return "done", False


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
    looked, steps, made = bool(episode["looked"]), wanted(episode), episode["writes"]
    found = {"looked": looked}
    for n in range(len(steps)):
        found[f"step_{n + 1}"] = looked and made[: n + 1] == steps[: n + 1]
    word = "broken" if episode["broken"] else "open"
    found["told"] = looked and made == steps and word in episode["reply"]
    return found


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
    """Look, do what comes before, open."""
    now = scene(seed)
    tank = {"tank": now["tank"]}
    calls = [("get_tank", tank), *((name, tank) for name in wanted(now))]
    words = "Its hatch is broken and stays shut." if now["broken"] else "The hatch is open."
    turns: list[dict[str, Any]] = [
        {"role": "assistant", "tool_calls": [{"id": f"call_{n}", "name": name, "arguments": arguments}]}
        for n, (name, arguments) in enumerate(calls, start=1)
    ]
    return [*turns, {"role": "assistant", "content": words}]
