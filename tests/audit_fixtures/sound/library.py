"""Find which shelf a book stands on and say it. A search, an answer in words, nothing is changed."""

import random
from typing import Any

RULE = (
    "Find the book by its title, then look at its record. Answer with the shelf, or say that it is lent out."
)
ADJECTIVES = ["red", "last", "quiet", "broken", "early", "hidden", "glass", "winter", "iron", "long"]
NOUNS = ["river", "tower", "garden", "letter", "harbour", "mirror", "forest", "window", "island", "song"]
ASKS = ["where is", "where can i find", "which shelf holds", "i look for", "do you have", "please find"]
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "find_book": ("Find a book's number by its title.", {"title": {"type": "string"}}),
    "get_record": ("Show the record of a book.", {"number": {"type": "string"}}),
}
TYPES = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
episode: dict[str, Any] = {}


def tools() -> list[dict[str, Any]]:
    """Find, show."""
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
    """A title with a number and a shelf."""
    rng = random.Random(seed)
    title = f"The {rng.choice(ADJECTIVES)} {rng.choice(NOUNS)} {rng.randrange(100, 999)}"
    text = f"{rng.choice(ASKS)} '{title}'?"
    shelf = rng.randrange(100, 990)
    number = f"N{rng.randrange(100000)}"
    return {
        "title": title,
        "number": number,
        "shelf": shelf,
        "lent": seed % 3 == 0,
        "request": text,
        "stray": 0,
    }


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
    if name == "find_book":
        if arguments["title"] != episode["title"]:
            return "no such title", True
        episode["looked"].append("title")
        return episode["number"], False
    if arguments["number"] != episode["number"]:
        return "no such number", True
    episode["looked"].append("record")
    return "lent out" if episode["lent"] else f"shelf {episode['shelf']}", False


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
    wanted = "lent" if episode["lent"] else str(episode["shelf"])
    others = {word for word in episode["reply"].replace(".", " ").split() if word.isdigit()} - {wanted}
    read = "record" in episode["looked"]
    return {
        "found": "title" in episode["looked"],
        "read": read,
        "answered": read and wanted in episode["reply"] and not others,
    }


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
    """Find, read, answer; search once more before saying that it is not there."""
    now = scene(seed)
    calls = [("find_book", {"title": now["title"]}), ("get_record", {"number": now["number"]})]
    if now["lent"]:
        calls = [*calls, calls[0]]
    words = "It is lent out." if now["lent"] else f"It stands on shelf {now['shelf']}."
    turns: list[dict[str, Any]] = [
        {"role": "assistant", "tool_calls": [{"id": f"call_{n}", "name": name, "arguments": arguments}]}
        for n, (name, arguments) in enumerate(calls, start=1)
    ]
    return [*turns, {"role": "assistant", "content": words}]
