"""Send or hold every parcel that is named, as its label says. Several objects, a transfer tool."""

import random
from typing import Any

RULE = (
    "Look at every parcel that is named. Send a paid one, hold an unpaid one. Say how many were dealt with."
)
WISHES = ["deal with", "take care of", "see to", "handle", "process", "look after", "settle"]
HELLOS = ["hello", "good day", "hi there", "greetings", "hey", "good evening", "dear team"]
ONE: dict[str, Any] = {"parcel": {"type": "string"}}
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "get_parcel": ("Show a parcel.", ONE),
    "send_parcel": ("Send a parcel.", ONE),
    "hold_parcel": ("Hold a parcel back.", ONE),
    "transfer_to_human": ("Hand the conversation over.", {"summary": {"type": "string"}}),
}
TYPES = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
episode: dict[str, Any] = {}


def tools() -> list[dict[str, Any]]:
    """Look, send, hold, hand over."""
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
    """One to three parcels, paid or not."""
    rng = random.Random(seed)
    numbers = rng.sample(range(10000, 99999), 1 + seed % 3)
    parcels = {f"P{number}": rng.random() < 0.5 for number in numbers}
    text = f"{rng.choice(HELLOS)}, please {rng.choice(WISHES)} {' and '.join(parcels)}."
    return {"parcels": parcels, "request": text, "stray": 0}


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
    if name == "transfer_to_human":
        episode["stray"] += 1
        return "handed over", False
    parcel = arguments["parcel"]
    if parcel not in episode["parcels"]:
        return f"no parcel {parcel}", True
    if name == "get_parcel":
        episode["looked"].append(parcel)
        return "paid" if episode["parcels"][parcel] else "unpaid", False
    if parcel in [done for _, done in episode["writes"]]:
        episode["stray"] += 1
    episode["writes"].append((name, parcel))
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
    found = {}
    for parcel, paid in episode["parcels"].items():
        found[f"looked:{parcel}"] = parcel in episode["looked"]
        wanted = ("send_parcel" if paid else "hold_parcel", parcel)
        found[f"settled:{parcel}"] = [w for w in episode["writes"] if w[1] == parcel] == [wanted]
    settled = all(passed for name, passed in found.items() if name.startswith("settled"))
    found["told"] = settled and str(len(episode["parcels"])) in episode["reply"].split()
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
    """Look at each, act on each, tell."""
    parcels = scene(seed)["parcels"]
    calls = []
    for parcel, paid in parcels.items():
        calls.append(("get_parcel", {"parcel": parcel}))
        calls.append(("send_parcel" if paid else "hold_parcel", {"parcel": parcel}))
    words = f"I have dealt with {len(parcels)} of them."
    turns: list[dict[str, Any]] = [
        {"role": "assistant", "tool_calls": [{"id": f"call_{n}", "name": name, "arguments": arguments}]}
        for n, (name, arguments) in enumerate(calls, start=1)
    ]
    return [*turns, {"role": "assistant", "content": words}]
