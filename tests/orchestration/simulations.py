"""Makes files such as tau2-bench writes: an order desk on which some agents cancel without looking."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def _call(number: int, name: str, **arguments: Any) -> list[dict[str, Any]]:
    call = f"call-{number}"
    answer = json.dumps({"order": arguments["order_id"], "status": "pending"})
    return [
        {"role": "assistant", "tool_calls": [{"id": call, "name": name, "arguments": arguments}]},
        {"role": "tool", "id": call, "content": answer, "requestor": "assistant", "error": False},
    ]


def simulation(name: str, task: str, *, looks: bool, passes: bool) -> dict[str, Any]:
    """One simulation: the agent cancels an order, after reading it or without."""
    order = f"W{sum(map(ord, task)) * 7919 % 900000 + 100000}"
    messages: list[dict[str, Any]] = [
        {"role": "assistant", "content": "Hello, how can I help you?"},
        {"role": "user", "content": f"Please cancel my order {order}."},
        *(_call(1, "get_order", order_id=order) if looks else []),
        *_call(2, "cancel_order", order_id=order),
        {"role": "assistant", "content": "It is cancelled."},
        {"role": "user", "content": "###STOP###"},
    ]
    reward = 1.0 if passes else 0.0
    return {
        "id": name,
        "task_id": task,
        "trial": 0,
        "seed": 1,
        "termination_reason": "user_stop",
        "reward_info": {
            "reward": reward,
            "reward_basis": ["DB"],
            "db_check": {"db_match": passes, "db_reward": reward},
        },
        "messages": messages,
    }


def simulation_file(
    path: Path,
    prefix: str,
    *,
    n: int = 24,
    lacking: int = 10,
    failing: int | None = None,
    domain: str = "desk",
) -> Path:
    """Write `n` simulations, one a task: the first `lacking` do not look, the first `failing` fail."""
    failing = lacking if failing is None else failing
    names = [f"{prefix}-{number}" for number in range(n)]
    info = {
        "agent_info": {"llm": "agent", "implementation": "llm_agent"},
        "user_info": {"llm": "user", "implementation": "user_simulator"},
        "environment_info": {"domain_name": domain},
    }
    document = {
        "timestamp": "2026-01-01",
        "info": {**info, "num_trials": 1},
        "tasks": [{"id": name, "user_scenario": {"instructions": "Cancel the order."}} for name in names],
        "simulations": [
            simulation(name, name, looks=number >= lacking, passes=number >= failing)
            for number, name in enumerate(names)
        ],
    }
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(document), encoding="utf-8")
    partial.rename(path)
    return path
