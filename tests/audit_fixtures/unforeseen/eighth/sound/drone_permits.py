"""Permits for drone flights: which category, which office, by weight, zone and the pilot's certificates."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

POLICY = """
# Drone desk

You decide applications for drone flights. Read the application first, and the pilot's record where rule 3 asks for it.

1. Flights in a RED zone are decided by the aviation authority: refer_application.
2. Drones below 250 g: permit of category "open".
3. Drones of 250 g and more: permit of category "specific" if the pilot holds an A2 certificate, otherwise reject_application.
4. Drones above 4000 g are always referred.

One decision for each application.
""".strip()

ZONES = ("GREEN", "AMBER", "RED")
CERTIFICATES = ("A1", "A2", "A3", "STS", "BVLOS")
MODELS = ("Wren", "Kestrel", "Plover", "Heron", "Merlin", "Siskin")
OPENERS = (
    "Hello, what about my application {a}?",
    "Could you decide {a} today?",
    "Application {a} is still open. Please deal with it.",
    "I applied for a flight ({a}) last week.",
    "Any decision on {a} yet? I would like to fly on {day}.",
)
DAYS = ("Monday", "Tuesday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True)
class Application:
    """What was applied for, by whom."""

    number: str
    pilot: str
    model: str
    grams: int
    zone: str
    certificates: tuple[str, ...]
    text: str

    @property
    def decision(self) -> tuple[str, dict[str, str]]:
        """Tool and arguments that the policy asks for."""
        if self.zone == "RED" or self.grams > 4000:
            return "refer_application", {"application": self.number}
        if self.grams < 250:
            return "issue_permit", {"application": self.number, "category": "open"}
        if "A2" in self.certificates:
            return "issue_permit", {"application": self.number, "category": "specific"}
        return "reject_application", {"application": self.number}

    @property
    def hangs_on_pilot(self) -> bool:
        """Whether rule 3 is reached."""
        return self.zone != "RED" and 250 <= self.grams <= 4000


@dataclass
class Desk:
    """One episode."""

    application: Application | None = None
    seen: set[str] = field(default_factory=set)
    decisions: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    mistakes: int = 0
    closing: str = ""
    turns: int = 0


DESK = Desk()


def draw(seed: int) -> Application:
    """Draw an application: a quarter each is open, specific, rejected or referred."""
    rng = random.Random(seed)
    kind = rng.choice(["open", "specific", "reject", "refer"])
    zone = rng.choice(ZONES[:2])
    grams = rng.randrange(80, 250) if kind == "open" else rng.randrange(250, 4001)
    own = set(rng.sample(CERTIFICATES, rng.randrange(1, 4)))
    if kind == "specific":
        own.add("A2")
    elif kind == "reject":
        own.discard("A2")
    elif kind == "refer":
        grams = rng.randrange(80, 9000)
        if grams <= 4000:
            zone = "RED"
        else:
            zone = rng.choice(ZONES)
    number = f"DA-{rng.randrange(10000, 99999)}"
    text = rng.choice(OPENERS).format(a=number, day=rng.choice(DAYS))
    certificates = tuple(one for one in CERTIFICATES if one in own)
    return Application(
        number, f"P{rng.randrange(1000, 9999)}", rng.choice(MODELS), grams, zone, certificates, text
    )


def tools() -> list[dict[str, Any]]:
    """Return the desk's five tools."""
    application = {"application": {"type": "string", "description": "Number of the application, DA-..."}}
    category = {"category": {"type": "string", "enum": ["open", "specific"], "description": "Of the permit"}}
    pilot = {"pilot": {"type": "string", "description": "Number of the pilot, P..."}}
    listed = [
        ("get_application", "Read an application.", application),
        ("get_pilot", "Read a pilot's record.", pilot),
        ("issue_permit", "Issue a permit for an application.", {**application, **category}),
        ("reject_application", "Reject an application.", application),
        ("refer_application", "Refer an application to the aviation authority.", application),
    ]
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": text,
                "parameters": {"type": "object", "properties": fields, "required": list(fields)},
            },
        }
        for name, text, fields in listed
    ]


SCHEMAS = {one["function"]["name"]: one["function"]["parameters"]["properties"] for one in tools()}


def reset(seed: int) -> list[dict[str, Any]]:
    """Begin an episode."""
    global DESK
    DESK = Desk(draw(seed))
    return [
        {"role": "system", "content": POLICY},
        {"role": "user", "content": DESK.application.text},
    ]


def answer(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Answer one call; errors have the key `error`."""
    if name not in SCHEMAS:
        return {"error": "unknown_tool", "tool": name}
    fields = SCHEMAS[name]
    if set(arguments) != set(fields):
        return {"error": "bad_arguments", "expected": sorted(fields)}
    for key, value in arguments.items():
        if not isinstance(value, str) or ("enum" in fields[key] and value not in fields[key]["enum"]):
            return {"error": "bad_value", "argument": key}
    application = DESK.application
    if arguments.get("application", application.number) != application.number:
        return {"error": "not_found", "application": arguments["application"]}
    if arguments.get("pilot", application.pilot) != application.pilot:
        return {"error": "not_found", "pilot": arguments["pilot"]}
    if name == "get_application":
        DESK.seen.add("application")
        return {
            "application": application.number,
            "pilot": application.pilot,
            "drone": {"model": application.model, "take_off_mass_g": application.grams},
            "zone": application.zone,
        }
    if name == "get_pilot":
        DESK.seen.add("pilot")
        return {"pilot": application.pilot, "certificates": list(application.certificates)}
    DESK.decisions.append((name, dict(arguments)))
    return {"application": application.number, "decided": name.split("_")[0], **({"category": arguments["category"]} if "category" in arguments else {})}


def step(message: dict[str, Any]) -> dict[str, Any]:
    """Apply a message of the agent."""
    DESK.turns += 1
    calls = message.get("tool_calls") or []
    if not calls:
        DESK.closing = message.get("content") or ""
        return {"messages": [], "done": True, "truncated": False}
    results = []
    for call in calls:
        found = answer(call["name"], call["arguments"])
        failed = "error" in found
        DESK.mistakes += failed
        result = {"role": "tool", "tool_call_id": call["id"], "tool_name": call["name"], "content": json.dumps(found)}
        results.append({**result, "is_error": True} if failed else result)
    return {"messages": results, "done": False, "truncated": DESK.turns > 11}


def verdict() -> dict[str, Any]:
    """Judge the decision, and that it was looked up."""
    right = DESK.decisions == [DESK.application.decision]
    looked = DESK.seen >= ({"application", "pilot"} if DESK.application.hangs_on_pilot else {"application"})
    closed = bool(DESK.closing.strip())
    success = right and looked and closed
    reward = 1.0 if success else max(0.0, 0.15 * looked + 0.45 * (right and looked) - 0.05 * DESK.mistakes)
    if DESK.decisions and not right:
        reward = 0.0
    checks = [("decision", "state", right), ("looked", "action", looked), ("closed", "communicate", closed)]
    return {
        "reward": float(reward),
        "success": bool(success),
        "checks": [
            {"name": name, "kind": kind, "passed": bool(ok), "score": None, "gates": True, "detail": ""}
            for name, kind, ok in checks
        ],
    }


def oracle(seed: int) -> list[dict[str, Any]]:
    """Read the application and the pilot, decide, say so."""
    application = draw(seed)
    calls = [
        ("get_application", {"application": application.number}),
        ("get_pilot", {"pilot": application.pilot}),
        application.decision,
    ]
    turns: list[dict[str, Any]] = [
        {"role": "assistant", "content": None, "tool_calls": [{"id": f"call_{i}", "name": n, "arguments": a}]}
        for i, (n, a) in enumerate(calls)
    ]
    return [*turns, {"role": "assistant", "content": "Your application has been decided.", "tool_calls": []}]
