"""Scripted agents without the capability. All of them must earn clearly less than the oracle.

They are as strong as they can be made without the capability: they know the objects and values that the
oracle would use, and close with its words.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import Any

from trace_assets.synthesis.audit.probe import Action, Probe

Attacker = Callable[[Probe, int], list[Action]]


def say(text: str) -> Action:
    """Return a message without a call."""
    return {"role": "assistant", "content": text}


def call(name: str, arguments: dict[str, Any], number: int = 1) -> Action:
    """Return a message with one call."""
    return {
        "role": "assistant",
        "tool_calls": [{"id": f"attack_{number}", "name": name, "arguments": arguments}],
    }


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


def calls_in(actions: Sequence[Action]) -> list[dict[str, Any]]:
    """Return the calls of a script, in order."""
    return [one for action in actions for one in action.get("tool_calls") or ()]


def closing(actions: Sequence[Action]) -> str:
    """Return the last words of a script."""
    return next((a["content"] for a in reversed(actions) if a.get("content")), "Done.")


def arguments_for(tool: dict[str, Any], probe: Probe, seed: int, rng: random.Random) -> list[dict[str, Any]]:
    """Return arguments for a tool, one set for each object that the oracle acts on.

    A value comes from the oracle's own calls where one has an argument of that name, else from the schema,
    else from the request.
    """
    parameters = tool["function"]["parameters"]
    used = calls_in(probe.oracle(seed))
    words = re.findall(r"\w+", request(probe, seed)) or ["none"]
    sets: list[dict[str, Any]] = []
    objects = list(dict.fromkeys(str(next(iter(one["arguments"].values()), "")) for one in used)) or [""]
    for thing in objects:
        same = [o for o in used if str(next(iter(o["arguments"].values()), "")) == thing] + used
        values: dict[str, Any] = {}
        for name, schema in parameters.get("properties", {}).items():
            known = next((o["arguments"][name] for o in same if name in o["arguments"]), None)
            values[name] = known if known is not None else _legal(schema, words, rng)
            if "enum" in schema and values[name] not in schema["enum"]:
                values[name] = schema["enum"][0]
        sets.append(values)
    return sets


def _legal(schema: dict[str, Any], words: Sequence[str], rng: random.Random) -> Any:
    if schema.get("enum"):
        return rng.choice(schema["enum"])
    kinds = {"integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}}
    return kinds.get(schema.get("type", "string"), rng.choice(words))


def always_refuse(probe: Probe, seed: int) -> list[Action]:
    """Refuses politely."""
    return [say("I am sorry, I cannot do that.")]


def echo(probe: Probe, seed: int) -> list[Action]:
    """Says back everything it was told."""
    return [say("\n".join(m.get("content") or "" for m in probe.first(seed)))]


def random_legal(probe: Probe, seed: int) -> list[Action]:
    """Makes four random legal calls, then closes with the oracle's words."""
    rng = random.Random(f"random_legal/{seed}")
    tools = probe.tools()
    script = []
    for _ in range(4):
        tool = rng.choice(tools)
        script.append(call(tool["function"]["name"], rng.choice(arguments_for(tool, probe, seed, rng))))
    return numbered([*script, say(closing(probe.oracle(seed)))])


def repeat_first(probe: Probe, seed: int) -> list[Action]:
    """Makes the oracle's first call over and over, then closes with the oracle's words."""
    calls = calls_in(probe.oracle(seed))
    first = [call(calls[0]["name"], calls[0]["arguments"])] if calls else []
    return numbered([*first * 4, say(closing(probe.oracle(seed)))])


def spam_all(probe: Probe, seed: int) -> list[Action]:
    """Calls every tool on every object, then closes with the oracle's words."""
    rng = random.Random(f"spam_all/{seed}")
    script = [
        call(tool["function"]["name"], arguments)
        for tool in probe.tools()
        for arguments in arguments_for(tool, probe, seed, rng)
    ]
    return numbered([*script, say(closing(probe.oracle(seed)))])


def other_seed(probe: Probe, seed: int) -> list[Action]:
    """Plays the solution of another seed: what remains is what does not depend on the episode."""
    return probe.oracle(seed + 1)


def same_tool(name: str) -> Attacker:
    """Return an agent that looks every object up and then always does one and the same thing.

    Args:
        name: The tool it uses whatever it saw. It closes as the oracle does where that tool came last.
    """

    def attack(probe: Probe, seed: int) -> list[Action]:
        rng = random.Random(f"same_tool/{name}/{seed}")
        tool = next(t for t in probe.tools() if t["function"]["name"] == name)
        first = calls_in(probe.oracle(seed))[:1]
        script: list[Action] = []
        for arguments in arguments_for(tool, probe, seed, rng):
            if first and first[0]["name"] != name:
                looked = {key: arguments.get(key, value) for key, value in first[0]["arguments"].items()}
                script.append(call(first[0]["name"], looked))
            script.append(call(name, arguments))
        return numbered([*script, say(_usual_closing(probe, seed, name))])

    attack.__doc__ = f"Always {name}."
    return attack


def _usual_closing(probe: Probe, seed: int, name: str) -> str:
    for other in range(seed, seed + 8):
        script = probe.oracle(other)
        calls = calls_in(script)
        if calls and calls[-1]["name"] == name:
            return closing(script)
    return closing(probe.oracle(seed))


def messy(probe: Probe, seed: int) -> list[Action]:
    """Return a script that no sensible agent would play: unknown tools, wrong arguments, broken text."""
    tools = [tool["function"]["name"] for tool in probe.tools()]
    script: list[Action] = [call("no_such_tool", {"a": 1}), call(tools[0], {}), call(tools[-1], {"odd": [1]})]
    script += [call(name, {"x": None, "order": 7}) for name in tools]
    many = [one for action in script[:3] for one in action["tool_calls"]]
    return numbered([*script[:4], {"role": "assistant", "tool_calls": many}, say("<tool_call>{")])


ATTACKERS: dict[str, Attacker] = {
    "always_refuse": always_refuse,
    "echo": echo,
    "random_legal": random_legal,
    "repeat_first": repeat_first,
    "spam_all": spam_all,
    "other_seed": other_seed,
}
"""Those that need no tool's name; `same_tool` is tried with every tool."""
