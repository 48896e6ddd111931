"""Approve small claims and hand large ones over. A transfer tool with an enum, integers to compare."""

import random
from typing import Any

RULE = "Approve a claim up to 500 euros. Transfer a larger one with the reason 'amount'."
WISHES = [
    "what about",
    "please decide on",
    "can i have money for",
    "i ask for",
    "check",
    "look into",
    "close",
]
NAMES = ["Abe", "Bea", "Cem", "Dua", "Eli", "Flo", "Gil", "Hua"]
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "get_claim": ("Show a claim.", {"claim": {"type": "string"}}),
    "approve_claim": ("Approve a claim.", {"claim": {"type": "string"}, "amount": {"type": "integer"}}),
    "transfer_claim": (
        "Transfer a claim to a human.",
        {"claim": {"type": "string"}, "reason": {"type": "string", "enum": ["amount", "fraud", "other"]}},
    ),
}
TYPES = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
episode: dict[str, Any] = {}


def tools() -> list[dict[str, Any]]:
    """Show, approve, transfer."""
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
    """A claim of an amount."""
    rng = random.Random(seed)
    claim = f"C{rng.randrange(100000)}"
    amount = rng.randint(501, 2000) if seed % 2 else rng.randint(20, 500)
    text = f"{rng.choice(NAMES)} asks: {rng.choice(WISHES)} {claim}?"
    return {"claim": claim, "amount": amount, "request": text, "stray": 0}


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
    if arguments["claim"] != episode["claim"]:
        return "no such claim", True
    if name == "get_claim":
        episode["looked"].append(name)
        return f"{episode['amount']} euros", False
    episode["writes"].append((name, arguments.get("amount", arguments.get("reason"))))
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
    large = episode["amount"] > 500
    wanted = ("transfer_claim", "amount") if large else ("approve_claim", episode["amount"])
    looked = bool(episode["looked"])
    settled = looked and episode["writes"] == [wanted]
    word = "colleague" if large else "approved"
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
    """Look, compare, approve or transfer."""
    now = scene(seed)
    claim = {"claim": now["claim"]}
    if now["amount"] > 500:
        last: tuple[str, dict[str, Any]] = ("transfer_claim", {**claim, "reason": "amount"})
        words = "A colleague will decide."
    else:
        last = ("approve_claim", {**claim, "amount": now["amount"]})
        words = "It is approved."
    calls = [("get_claim", claim), last]
    turns: list[dict[str, Any]] = [
        {"role": "assistant", "tool_calls": [{"id": f"call_{n}", "name": name, "arguments": arguments}]}
        for n, (name, arguments) in enumerate(calls, start=1)
    ]
    return [*turns, {"role": "assistant", "content": words}]
