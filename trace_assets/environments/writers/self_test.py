"""Conformance self-test of a generated environment. It is part of the prompt, so it needs nothing but Python.

`check(module)` raises AssertionError with the reason. The audit looks closer; this is the least of it.
"""

import json
import types
from typing import Any

SEEDS = range(2_000_000, 2_000_040)


def play(module: types.ModuleType, seed: int, script: list[dict[str, Any]]) -> dict[str, Any]:
    """Play a script of assistant messages and return first messages, answers and verdict."""
    first = module.reset(seed)
    answers = []
    for message in script:
        answer = module.step({"role": "assistant", "content": None, "tool_calls": [], **message})
        assert set(answer) == {"messages", "done", "truncated"}, "step() returns these three keys"
        assert isinstance(answer["done"], bool) and isinstance(answer["truncated"], bool)
        asked = [call["id"] for call in message.get("tool_calls") or ()]
        told = [one.get("tool_call_id") for one in answer["messages"] if one["role"] == "tool"]
        assert told[: len(asked)] == asked, "every tool call is answered, in order, by its id"
        answers.append(answer)
        if answer["done"] or answer["truncated"]:
            break
    verdict = module.verdict()
    assert set(verdict) == {"reward", "success", "checks"}, "verdict() returns these three keys"
    assert isinstance(verdict["reward"], float) and 0.0 <= verdict["reward"] <= 1.0
    assert isinstance(verdict["success"], bool) and isinstance(verdict["checks"], list)
    for one in verdict["checks"]:
        assert set(one) == {"name", "kind", "passed", "score", "gates", "detail"}, "keys of a check"
        assert not (verdict["success"] and one["gates"] and not one["passed"]), "success needs its checks"
    whole = {"first": first, "answers": answers, "verdict": verdict}
    json.dumps(whole, allow_nan=False)
    return whole


def check(module: types.ModuleType) -> None:
    """Check a module."""
    names = [tool["function"]["name"] for tool in module.tools()]
    assert names and len(names) == len(set(names)), "tools() lists the target's tools, each once"
    requests = set()
    for seed in SEEDS:
        best = play(module, seed, module.oracle(seed))
        assert best["verdict"]["reward"] == 1.0 and best["verdict"]["success"], f"oracle falls short: {seed}"
        assert best == play(module, seed, module.oracle(seed)), f"not deterministic: {seed}"
        assert play(module, seed, [])["verdict"]["reward"] <= 0.1, f"silence is paid: {seed}"
        goodbye = play(module, seed, [{"content": "Goodbye."}])["verdict"]
        assert not goodbye["success"], f"saying goodbye at once succeeds: {seed}"
        odd = [{"tool_calls": [{"id": "a", "name": "no_such_tool", "arguments": {"x": 1}}]}]
        odd += [
            {"tool_calls": [{"id": f"b{i}", "name": name, "arguments": {}}]} for i, name in enumerate(names)
        ]
        play(module, seed, odd)
        requests.add(json.dumps(best["first"]))
    assert len(requests) >= 0.95 * len(SEEDS), "seeds give different requests"
