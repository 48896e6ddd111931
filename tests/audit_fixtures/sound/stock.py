"""Add up what several stores hold and say the sum. Independent reads, a calculation, only words."""

import random
from typing import Any

RULE = "Look at every store that is named, and answer with the sum of all pieces."
ASKS = [
    "how many pieces are in",
    "please count",
    "what is the total of",
    "add up",
    "sum up",
    "how much is in",
]
NAMES = ["Ana", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gina"]
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "get_store": ("Show how many pieces a store holds.", {"store": {"type": "string"}}),
    "empty_store": ("Empty a store.", {"store": {"type": "string"}}),
}
TYPES = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
episode: dict[str, Any] = {}


def tools() -> list[dict[str, Any]]:
    """Show, empty."""
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
    """Two to four stores."""
    rng = random.Random(seed)
    numbers = rng.sample(range(10000, 99999), 2 + seed % 3)
    stores = {f"W{number}": rng.randint(3, 400) for number in numbers}
    text = f"{rng.choice(NAMES)}: {rng.choice(ASKS)} {', '.join(stores)}?"
    return {"stores": stores, "request": text, "stray": 0}


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
    if arguments["store"] not in episode["stores"]:
        return "no such store", True
    if name == "get_store":
        episode["looked"].append(arguments["store"])
        return f"{episode['stores'][arguments['store']]} pieces", False
    episode["stray"] += 1
    return "emptied", False


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
    found = {f"looked:{store}": store in episode["looked"] for store in episode["stores"]}
    numbers = [word for word in episode["reply"].replace(".", " ").split() if word.isdigit()]
    found["answered"] = all(found.values()) and numbers == [str(sum(episode["stores"].values()))]
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
    """Look at each, add up, answer."""
    stores = scene(seed)["stores"]
    calls = [("get_store", {"store": store}) for store in stores]
    words = f"Together they hold {sum(stores.values())} pieces."
    turns: list[dict[str, Any]] = [
        {"role": "assistant", "tool_calls": [{"id": f"call_{n}", "name": name, "arguments": arguments}]}
        for n, (name, arguments) in enumerate(calls, start=1)
    ]
    return [*turns, {"role": "assistant", "content": words}]
