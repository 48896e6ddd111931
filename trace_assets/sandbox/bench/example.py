"""The environment that is timed: what is left when it does nothing is the sandbox's own cost."""

from __future__ import annotations

from typing import Any

EXAMPLE = '''"""The smallest environment: say anything, be done after a number of turns."""
STATE = {"turns": 0}

def tools():
    parameters = {"type": "object", "properties": {}}
    return [{"type": "function", "function": {"name": "wait", "description": "", "parameters": parameters}}]

def reset(seed):
    return [{"role": "user", "content": f"seed {seed}"}]

def step(message):
    STATE["turns"] += 1
    calls = message["tool_calls"]
    answers = [{"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in calls]
    return {"messages": answers, "done": False, "truncated": False}

def verdict():
    return {"reward": 1.0, "success": True, "checks": []}

def oracle(seed):
    call = {"id": "c", "name": "wait", "arguments": {}}
    return [{"role": "assistant", "content": None, "tool_calls": [call]}]
'''
LOOP = EXAMPLE.replace('STATE["turns"] += 1', "while True: pass")
"""The same, but a step never ends."""
ACTION: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c", "name": "wait", "arguments": {}}],
}
