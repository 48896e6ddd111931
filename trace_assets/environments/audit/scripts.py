"""What attackers are made of: messages, the oracle's calls taken apart, and arguments for any tool."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import Any

from trace_assets.environments.audit.scripted_rollouts import Action, Probe

MOST_THINGS = 8
"""Objects that an attacker tries itself on."""
Attacker = Callable[[Probe, int], list[Action]]
Call = dict[str, Any]


class Unsupported(Exception):
    """This attack cannot be tried on this environment; the message says why."""


def say(text: str) -> Action:
    """Return a message without a call."""
    return {"role": "assistant", "content": text}


def call(name: str, arguments: dict[str, Any]) -> Action:
    """Return a message with one call."""
    return {"role": "assistant", "tool_calls": [{"id": "attack_0", "name": name, "arguments": arguments}]}


def again(one: Call) -> Action:
    """Return a message that makes a call of a script once more."""
    return call(one["name"], one["arguments"])


def numbered(actions: Sequence[Action]) -> list[Action]:
    """Give every call of a script its own id."""
    script, number = [], 0
    for action in actions:
        calls = []
        for one in action.get("tool_calls") or ():
            number += 1
            calls.append({**one, "id": f"attack_{number}"})
        script.append({**action, "tool_calls": calls} if calls else action)
    return script


def request(probe: Probe, seed: int) -> str:
    """Return what the user asks for."""
    return next((m.get("content") or "" for m in reversed(probe.first(seed)) if m["role"] == "user"), "")


def calls_in(actions: Sequence[Action]) -> list[Call]:
    """Return the calls of a script, in order."""
    return [one for action in actions for one in action.get("tool_calls") or ()]


def closing(actions: Sequence[Action]) -> str:
    """Return the last words of a script."""
    return next((a["content"] for a in reversed(actions) if a.get("content")), "Done.")


def words_for(probe: Probe, seed: int) -> str:
    """Return words to close with: the oracle's, where its deeds are what counts.

    Where it changes nothing, its words are the deed, and who knows them is no attacker: then those of
    another seed.
    """
    script = probe.oracle(seed)
    if any(probe.writes(one["name"]) for one in calls_in(script)):
        return closing(script)
    others = (closing(probe.oracle(other)) for other in range(seed + 1, seed + 8))
    return next((words for words in others if words != closing(script)), "Done.")


def thing_of(one: Call) -> str:
    """Return what a call is about: its first argument.

    >>> thing_of({"name": "get_order", "arguments": {"order": "A1", "full": True}})
    'A1'
    """
    return str(next(iter(one["arguments"].values()), ""))


def things(calls: Sequence[Call]) -> list[str]:
    """Return what calls are about, each once, in order."""
    return list(dict.fromkeys(thing_of(one) for one in calls))


def arguments_for(tool: dict[str, Any], probe: Probe, seed: int, rng: random.Random) -> list[dict[str, Any]]:
    """Return arguments for a tool, one set for each object that the oracle acts on.

    A value comes from the oracle's own calls where one has an argument of that name, else from the schema,
    else from the request.
    """
    used = calls_in(probe.oracle(seed))
    words = re.findall(r"\w+", request(probe, seed)) or ["none"]
    sets: list[dict[str, Any]] = []
    for thing in things(used)[:MOST_THINGS] or [""]:
        same = [one for one in used if thing_of(one) == thing] + used
        same.sort(key=lambda one: one["name"] != tool["function"]["name"])
        values: dict[str, Any] = {}
        for name, schema in properties(tool).items():
            known = next((o["arguments"][name] for o in same if _about(o, thing, name)), None)
            values[name] = known if known is not None else _legal(schema, words, rng)
            if "enum" in schema and values[name] not in schema["enum"]:
                values[name] = schema["enum"][0]
        if values not in sets:
            sets.append(values)
    return sets


def properties(tool: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the schemas of a tool's arguments; one that is a mere truth value says nothing."""
    declared = tool["function"]["parameters"].get("properties", {})
    return {name: schema if isinstance(schema, dict) else {} for name, schema in declared.items()}


def _about(one: Call, thing: str, name: str) -> bool:
    """Whether a call tells an argument's value for an object; what the object is, only its own calls do."""
    if name not in one["arguments"]:
        return False
    return thing_of(one) == thing or name != next(iter(one["arguments"]))


def _legal(schema: dict[str, Any], words: Sequence[str], rng: random.Random) -> Any:
    if schema.get("enum"):
        return rng.choice(schema["enum"])
    kinds = {"integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}}
    return kinds.get(schema.get("type", "string"), rng.choice(words))


def tool_named(probe: Probe, name: str) -> dict[str, Any]:
    """Return a declared tool."""
    return next(tool for tool in probe.tools() if tool["function"]["name"] == name)


def reads_everything(probe: Probe, seed: int) -> list[Action]:
    """Return one call of every reading tool on every object."""
    rng = probe.chance(f"reads/{seed}")
    return [
        call(tool["function"]["name"], arguments)
        for tool in probe.tools()
        if not probe.writes(tool["function"]["name"])
        for arguments in arguments_for(tool, probe, seed, rng)
    ]
