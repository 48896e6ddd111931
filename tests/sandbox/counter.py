"""An environment for the tests: add numbers until the target is met. Only its text is used."""

import random

STATE = {}

PARAMETERS = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def tools():
    return [{"type": "function", "function": {"name": "add", "description": "", "parameters": PARAMETERS}}]


def target(seed):
    return random.Random(seed).randint(3, 9)


def reset(seed):
    STATE.update(target=target(seed), total=0, steps=0)
    return [{"role": "user", "content": f"Reach {STATE['target']}."}]


def step(message):
    STATE["steps"] += 1
    answers = []
    for call in message.get("tool_calls") or []:
        STATE["total"] += call["arguments"]["n"]
        answers.append({"role": "tool", "tool_call_id": call["id"], "content": str(STATE["total"])})
    return {"messages": answers, "done": not answers or STATE["total"] >= STATE["target"], "truncated": False}


def verdict():
    met = STATE["total"] == STATE["target"]
    check = {
        "name": "total",
        "kind": "state",
        "passed": met,
        "score": float(met),
        "gates": True,
        "detail": "",
    }
    return {"reward": float(met), "success": met, "checks": [check]}


def oracle(seed):
    call = {"id": "c1", "name": "add", "arguments": {"n": target(seed)}}
    return [{"role": "assistant", "content": None, "tool_calls": [call]}]
