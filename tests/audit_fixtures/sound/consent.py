"""Ask before a contract is ended, and do as the user answers. Several turns, a user who speaks again."""

import random
from typing import Any

RULE = "Look at the contract, tell its fee and ask whether to end it. End it only after a yes; then say so."
WISHES = ["end", "cancel", "stop", "terminate", "please end", "i might end", "what if i end"]
WHYS = ["i move", "too dear", "no time", "not needed", "found better", "a friend said so", "i am ill"]
NUMBER: dict[str, Any] = {"contract": {"type": "string"}}
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "get_contract": ("Show a contract.", NUMBER),
    "end_contract": ("End a contract.", NUMBER),
    "pause_contract": ("Pause a contract.", NUMBER),
}
TYPES = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
episode: dict[str, Any] = {}


def tools() -> list[dict[str, Any]]:
    """Show, end, pause."""
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
    """A contract with a fee, and whether the user agrees."""
    rng = random.Random(seed)
    contract, fee = f"V{rng.randrange(100000)}", rng.randint(10, 99)
    text = f"{rng.choice(WISHES)} {contract}: {rng.choice(WHYS)}."
    agrees = seed % 2 == 0
    return {"contract": contract, "fee": fee, "agrees": agrees, "asked": False, "request": text, "stray": 0}


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
    if arguments["contract"] != episode["contract"]:
        return "no such contract", True
    if name == "get_contract":
        episode["looked"].append(name)
        return f"fee {episode['fee']}", False
    episode["writes"].append(name)
    right = episode["asked"] and episode["agrees"] and episode["writes"] == ["end_contract"]
    episode["stray"] += not right
    return "ok", False


def step(message: dict[str, Any]) -> dict[str, Any]:
    """Apply one assistant message."""
    calls = message.get("tool_calls") or []
    if not calls:
        reply = (message.get("content") or "").lower()
        asks = str(episode["fee"]) in reply and "?" in reply and bool(episode["looked"])
        if asks and not episode["asked"]:
            episode["asked"] = True
            answer = {"role": "user", "content": "Yes, do it." if episode["agrees"] else "No, leave it."}
            return {"messages": [answer], "done": False, "truncated": False}
        episode.update(reply=reply, done=True)
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
    asked = bool(episode["looked"]) and episode["asked"]
    settled = asked and episode["writes"] == (["end_contract"] if episode["agrees"] else [])
    word = "ended" if episode["agrees"] else "stays"
    told = settled and episode["done"] and word in episode["reply"]
    return {"looked": bool(episode["looked"]), "asked": asked, "settled": settled, "told": told}


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
    """Look, ask, act on the answer, tell."""
    now = scene(seed)
    number = {"contract": now["contract"]}

    def one(name: str) -> dict[str, Any]:
        """A message with one call."""
        return {"role": "assistant", "tool_calls": [{"id": name, "name": name, "arguments": number}]}

    question = {"role": "assistant", "content": f"The fee is {now['fee']}. Shall I end it?"}
    if now["agrees"]:
        words = {"role": "assistant", "content": "It is ended."}
        return [one("get_contract"), question, one("end_contract"), words]
    return [one("get_contract"), question, {"role": "assistant", "content": "Then it stays."}]
