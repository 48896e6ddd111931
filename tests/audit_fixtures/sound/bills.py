"""Pay what is due after the credit, or dispute a bill that is marked wrong. A calculation."""

import random
from typing import Any

RULE = "Pay a bill's total minus its credit, in whole euros. Dispute a bill that is marked as wrong."
WISHES = ["pay", "settle", "clear", "please pay", "can you pay", "i want to pay", "go ahead and pay"]
NAMES = ["Ida", "Jon", "Kim", "Lea", "Max", "Nia", "Oto", "Pia"]
BILL: dict[str, Any] = {"bill": {"type": "string"}}
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "get_bill": ("Show a bill.", BILL),
    "pay_bill": ("Pay an amount on a bill.", {**BILL, "amount": {"type": "integer"}}),
    "dispute_bill": ("Dispute a bill.", BILL),
}
TYPES = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
episode: dict[str, Any] = {}


def tools() -> list[dict[str, Any]]:
    """Show, pay, dispute."""
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
    """A bill with a credit, wrong or not."""
    rng = random.Random(seed)
    total, credit = rng.randint(50, 900), rng.randint(1, 49)
    bill = f"B-{rng.randrange(100000)}"
    text = f"{rng.choice(NAMES)} speaking, {rng.choice(WISHES)} {bill}."
    return {
        "bill": bill,
        "total": total,
        "credit": credit,
        "wrong": seed % 2 == 0,
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
    if arguments["bill"] != episode["bill"]:
        return "no such bill", True
    if name == "get_bill":
        episode["looked"].append(arguments["bill"])
        mark = "wrong" if episode["wrong"] else "right"
        return f"total {episode['total']}, credit {episode['credit']}, marked {mark}", False
    episode["writes"].append([name, arguments.get("amount")])
    return "booked", False


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
    due = episode["total"] - episode["credit"]
    wanted = ["dispute_bill", None] if episode["wrong"] else ["pay_bill", due]
    looked = bool(episode["looked"])
    settled = looked and episode["writes"] == [wanted]
    word = "disputed" if episode["wrong"] else str(due)
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
    """Look, pay or dispute, tell."""
    now = scene(seed)
    bill, due = {"bill": now["bill"]}, now["total"] - now["credit"]
    last = ("dispute_bill", bill) if now["wrong"] else ("pay_bill", {**bill, "amount": due})
    calls = [("get_bill", bill), last]
    words = "The bill is disputed." if now["wrong"] else f"I paid {due} euros."
    turns: list[dict[str, Any]] = [
        {"role": "assistant", "tool_calls": [{"id": f"call_{n}", "name": name, "arguments": arguments}]}
        for n, (name, arguments) in enumerate(calls, start=1)
    ]
    return [*turns, {"role": "assistant", "content": words}]
