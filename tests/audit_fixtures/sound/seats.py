"""Book the free seats of a row, or none if one is taken. Arguments that are lists and objects."""

import random
from typing import Any

RULE = "Book exactly the seats that are asked for, for the guest. If one is taken, put the guest on the list."
WISHES = ["i want", "please book", "can we have", "reserve", "keep", "we would like", "hold"]
GUESTS = ["Ann Ray", "Bo Lind", "Cy Dorn", "Di Voss", "Ed Park", "Fe Cruz", "Gu Wen", "Hy Tal"]
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "get_show": ("Show what is taken.", {"show": {"type": "string"}}),
    "book_seats": (
        "Book seats.",
        {"show": {"type": "string"}, "seats": {"type": "array"}, "guest": {"type": "object"}},
    ),
    "join_list": (
        "Put a guest on the waiting list.",
        {"show": {"type": "string"}, "guest": {"type": "object"}},
    ),
}
TYPES = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
episode: dict[str, Any] = {}


def tools() -> list[dict[str, Any]]:
    """Show, book, wait."""
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
    """A show, the seats asked for, and those taken."""
    rng = random.Random(seed)
    seats = [f"R{n}" for n in sorted(rng.sample(range(1, 60), rng.randint(1, 3)))]
    taken = [f"R{n}" for n in range(60, 64)] + ([seats[-1]] if seed % 2 else [])
    show, guest = f"S{rng.randrange(100000)}", rng.choice(GUESTS)
    text = f"{guest} here, {rng.choice(WISHES)} {', '.join(seats)} in {show}."
    return {
        "show": show,
        "seats": seats,
        "taken": taken,
        "guest": {"name": guest},
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
    if arguments["show"] != episode["show"]:
        return "no such show", True
    if name == "get_show":
        episode["looked"].append(name)
        return f"taken: {', '.join(sorted(episode['taken']))}", False
    if name == "book_seats" and any(seat in episode["taken"] for seat in arguments["seats"]):
        return "taken", True
    episode["writes"].append({**arguments, "tool": name})
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
    wanted = {"tool": "join_list", "show": episode["show"], "guest": episode["guest"]}
    if not set(episode["seats"]) & set(episode["taken"]):
        wanted = {**wanted, "tool": "book_seats", "seats": episode["seats"]}
    looked = bool(episode["looked"])
    settled = looked and episode["writes"] == [wanted]
    word = "booked" if wanted["tool"] == "book_seats" else "waiting"
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
    """Look, then book or wait."""
    now = scene(seed)
    show, guest = {"show": now["show"]}, {"guest": now["guest"]}
    if set(now["seats"]) & set(now["taken"]):
        last: tuple[str, dict[str, Any]] = ("join_list", {**show, **guest})
        words = "You are on the waiting list."
    else:
        last = ("book_seats", {**show, "seats": now["seats"], **guest})
        words = "They are booked."
    calls = [("get_show", show), last]
    turns: list[dict[str, Any]] = [
        {"role": "assistant", "tool_calls": [{"id": f"call_{n}", "name": name, "arguments": arguments}]}
        for n, (name, arguments) in enumerate(calls, start=1)
    ]
    return [*turns, {"role": "assistant", "content": words}]
