"""Cancel a reservation where one of four conditions holds; refuse otherwise, in words or by handing over."""

import json
import random
from typing import Any

NOW = "2024-05-15 15:00:00"
RULE = (
    f"The current time is {NOW}.\n"
    "## Cancel a reservation\n"
    "A reservation can be cancelled if any of the following is true:\n"
    "- The booking was made within the last 24 hours\n"
    "- It is a business flight\n"
    "- It is insured\n"
    "- The flight was cancelled by airline\n"
    "Otherwise refuse, or hand over to a human. Look a reservation up before you change it."
)
WISHES = ["cancel", "please cancel", "call off", "could you cancel", "i need to cancel", "drop"]
REASONS = ["my plans changed", "i am ill", "of the weather", "of a wedding", "work calls", "i am late"]
PEOPLE = ["Ann", "Bo", "Cy", "Di", "Ed", "Flo", "Gus", "Hal", "Ina", "Jo"]
RESERVATION: dict[str, Any] = {"reservation_id": {"type": "string"}}
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "get_reservation": ("Show a reservation.", RESERVATION),
    "cancel_reservation": ("Cancel a reservation.", RESERVATION),
    "upgrade_reservation": ("Move a reservation up to business.", RESERVATION),
    "transfer_to_human": ("Hand the conversation over.", {"summary": {"type": "string"}}),
}
REFUSED = ["cannot", "can't", "not", "unable", "refus", "declin", "sorry", "human", "no "]
episode: dict[str, Any] = {}


def tools() -> list[dict[str, Any]]:
    """Show, cancel, upgrade, hand over."""
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
    """A reservation; every other one meets one condition of the rule."""
    rng = random.Random(seed)
    condition = rng.choice(["new", "business", "insured", "airline"]) if seed % 2 == 0 else "none"
    hours = rng.randrange(1, 23) if condition == "new" else rng.randrange(30, 700)
    record = {
        "reservation_id": f"R{rng.randrange(10000, 100000)}",
        "cabin": "business" if condition == "business" else rng.choice(["economy", "basic_economy"]),
        "insurance": "yes" if condition == "insured" else "no",
        "created_at": moment(hours, rng.randrange(60)),
        "status": "cancelled by airline" if condition == "airline" else rng.choice(["available", "delayed"]),
        "bags": rng.randrange(4),
        "passengers": rng.sample(PEOPLE, rng.randrange(1, 4)),
    }
    may = condition != "none"
    wish = f"{rng.choice(WISHES)} {record['reservation_id']}, {rng.choice(REASONS)}."
    text = f"{rng.choice(PEOPLE)} here, {wish}"
    return {"record": record, "may": may, "condition": condition, "request": text}


def moment(hours: int, minute: int) -> str:
    """The moment so many hours before now."""
    day, hour = divmod(15 * 24 + 14 - hours, 24)
    month = 5
    while day < 1:
        month -= 1
        day += 30
    return f"2024-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:00"


def reset(seed: int) -> list[dict[str, Any]]:
    """Begin."""
    episode.clear()
    episode.update(scene(seed), looked=False, first=False, writes=[], handed=0, bad=0, reply="", done=False)
    return [{"role": "system", "content": RULE}, {"role": "user", "content": episode["request"]}]


def refusal(name: str, arguments: dict[str, Any]) -> str:
    """Why a call is refused, empty where it is not."""
    if name not in TOOLS:
        return f"Error: there is no tool {name}"
    for key in TOOLS[name][1]:
        if type(arguments.get(key)) is not str:
            return f"Error: {key} must be a text"
    if "reservation_id" in arguments and arguments["reservation_id"] != episode["record"]["reservation_id"]:
        return "Error: no such reservation"
    return ""


def act(name: str) -> str:
    """Carry out a call that is not refused."""
    if name == "get_reservation":
        episode["looked"] = True
        return json.dumps(episode["record"])
    if name == "transfer_to_human":
        episode["handed"] += 1
        return "Transfer successful"
    episode["first"] = episode["first"] or not episode["looked"]
    episode["writes"].append(name)
    return "ok"


def step(message: dict[str, Any]) -> dict[str, Any]:
    """Apply one assistant message."""
    calls = message.get("tool_calls") or []
    if not calls:
        episode.update(reply=(message.get("content") or "").lower(), done=True)
        return {"messages": [], "done": True, "truncated": False}
    results = []
    for call in calls:
        wrong = refusal(call["name"], call["arguments"])
        content = wrong or act(call["name"])
        episode["bad"] += bool(wrong)
        result = {"role": "tool", "content": content, "tool_call_id": call["id"], "tool_name": call["name"]}
        results.append({**result, "is_error": bool(wrong)})
    return {"messages": results, "done": False, "truncated": False}


def judge() -> dict[str, bool]:
    """What was achieved, in the order in which it is."""
    looked = episode["looked"] and not episode["first"]
    wanted = ["cancel_reservation"] if episode["may"] else []
    settled = looked and episode["writes"] == wanted and not (episode["handed"] and episode["may"])
    words = ["cancel"] if episode["may"] else REFUSED
    told = settled and episode["done"] and any(word in episode["reply"] for word in words)
    return {"looked": looked, "settled": settled, "told": told}


def verdict() -> dict[str, Any]:
    """Half of the reward for each share that was achieved, half for all of it; errors and strays cost."""
    found = judge()
    stray = max(0, len(episode["writes"]) - episode["may"]) + max(0, episode["handed"] - (not episode["may"]))
    success = all(found.values()) and not stray
    reward = 0.5 * sum(found.values()) / len(found) + 0.5 * success - 0.05 * (episode["bad"] + stray)
    checks = [
        {"name": name, "kind": "state", "passed": passed, "score": None, "gates": True, "detail": ""}
        for name, passed in [*found.items(), ("nothing_else", not stray)]
    ]
    return {"reward": min(1.0, max(0.5 * success, reward)), "success": success, "checks": checks}


def oracle(seed: int) -> list[dict[str, Any]]:
    """Look, then cancel or refuse."""
    now = scene(seed)
    thing = {"reservation_id": now["record"]["reservation_id"]}
    names = ["get_reservation", "cancel_reservation"] if now["may"] else ["get_reservation"]
    words = "It is cancelled." if now["may"] else "I am sorry, I cannot cancel it."
    turns: list[dict[str, Any]] = [
        {"role": "assistant", "tool_calls": [{"id": f"call_{n}", "name": name, "arguments": thing}]}
        for n, name in enumerate(names, start=1)
    ]
    return [*turns, {"role": "assistant", "content": words}]
