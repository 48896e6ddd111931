"""Move a ticket through its states to where it is asked to be. A state machine, an enum argument."""

import random
from typing import Any

RULE = (
    "A ticket goes new, assigned, solved, closed, one state at a time. Say the state in which it is at last."
)
STATES = ["new", "assigned", "solved", "closed"]
WISHES = ["bring", "move", "take", "get", "please bring", "please move", "push", "carry"]
TAILS = ["now", "today", "please", "if you can", "for me", "at once", "when possible"]
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "get_ticket": ("Show a ticket.", {"ticket": {"type": "string"}}),
    "move_ticket": (
        "Move a ticket to the next state.",
        {"ticket": {"type": "string"}, "state": {"type": "string", "enum": STATES}},
    ),
    "delete_ticket": ("Delete a ticket.", {"ticket": {"type": "string"}}),
}
TYPES = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
episode: dict[str, Any] = {}


def tools() -> list[dict[str, Any]]:
    """Show, move, delete."""
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
    """A ticket, its state, and where it shall be."""
    rng = random.Random(seed)
    start = seed % 3
    end = rng.randrange(start + 1, 4)
    ticket = f"K{rng.randrange(100000)}"
    text = f"{rng.choice(WISHES)} {ticket} to {STATES[end]} {rng.choice(TAILS)}"
    return {"ticket": ticket, "start": start, "now": start, "end": end, "request": text, "stray": 0}


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
    if arguments["ticket"] != episode["ticket"] or episode["now"] < 0:
        return "no such ticket", True
    if name == "get_ticket":
        episode["looked"].append(name)
        return STATES[episode["now"]], False
    if name == "delete_ticket":
        episode.update(now=-1, stray=episode["stray"] + 1)
        return "deleted", False
    state = STATES.index(arguments["state"])
    if state != episode["now"] + 1:
        return f"it cannot go from {STATES[episode['now']]} to {arguments['state']}", True
    episode["writes"].append(state)
    episode["stray"] += state > episode["end"]
    episode["now"] = state
    return arguments["state"], False


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
    found = {"looked": bool(episode["looked"])}
    for state in range(episode["start"] + 1, episode["end"] + 1):
        found[STATES[state]] = found["looked"] and state in episode["writes"]
    arrived = found["looked"] and episode["now"] == episode["end"]
    found["told"] = arrived and STATES[episode["end"]] in episode["reply"]
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
    """Look, then move state by state."""
    now = scene(seed)
    ticket = {"ticket": now["ticket"]}
    states = STATES[now["start"] + 1 : now["end"] + 1]
    calls = [("get_ticket", ticket), *(("move_ticket", {**ticket, "state": state}) for state in states)]
    words = f"It is {states[-1]} now."
    turns: list[dict[str, Any]] = [
        {"role": "assistant", "tool_calls": [{"id": f"call_{n}", "name": name, "arguments": arguments}]}
        for n, (name, arguments) in enumerate(calls, start=1)
    ]
    return [*turns, {"role": "assistant", "content": words}]
