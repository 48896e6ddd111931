"""Rollouts of the verifiers library: v1 `traces.jsonl` (an episode a line) and v0 `results.jsonl`.

A v1 trace is a graph of messages; its last branch is the conversation. Rewards that were not computed are
None there and stay so: a trace that did not end well is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trace_assets.formats.fields import amount, dict_of, not_too_many, token_count
from trace_assets.formats.openai_chat import first_row, read_conversation, read_rows
from trace_assets.formats.outcome import MOST_CHECKS
from trace_assets.formats.problem import UNUSABLE, Problem, Reading
from trace_assets.records import Task, Trajectory
from trace_assets.untrusted.allowance import OF_MACHINE, Allowance

_SCORING = ("TaskError", "EnvError")
"""Errors in the environment's own code; all others are the infrastructure's."""
Row = tuple[dict[str, Any], dict[str, Any]]
"""A conversation as `read_conversation` takes it, and what is changed in the trajectory afterwards."""


class VerifiersImporter:
    """Reads what verifiers writes when it evaluates."""

    name = "verifiers"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Tell whether the first line is an episode, a trace, or a result of version 0."""
        row = first_row(head)
        keys = set(row or ())
        episode = {"traces", "task"} <= keys and isinstance((row or {}).get("task"), dict)
        trace = {"nodes", "task", "agent"} <= keys
        return episode or trace or {"example_id", "prompt", "completion"} <= keys

    def read(self, path: Path, allowance: Allowance = OF_MACHINE) -> Iterator[Task | Trajectory | Problem]:
        """Yield a trajectory a trace of an agent that is trained or judged, each task once."""
        reading = Reading(path)
        for row in read_rows(path, allowance):
            if isinstance(row, Problem):
                yield row
                continue
            number, value = row
            place = f"line {number}"
            try:
                for conversation, changes in _rows(value, number):
                    trajectory, notice = read_conversation(path, number, conversation)
                    trajectory = Trajectory.model_validate(
                        {**dict(trajectory), "source": f"verifiers:{path.name}", **changes}
                    )
                    yield from reading.told(trajectory, notice, place)
            except UNUSABLE as error:
                yield reading.left_out(error, place, "this line")


def _rows(value: dict[str, Any], number: int) -> Iterator[Row]:
    if "completion" in value:
        yield _result(value, number)
    elif "nodes" in value:
        yield _trace(value, {}, [])
    else:
        traces = [one for one in value.get("traces") or [] if isinstance(one, dict)]
        judged = [one for one in traces if _is_judged(one)]
        others = [one for one in traces if not _is_judged(one)]
        if not judged:
            reasons = "; ".join(str(error.get("message")) for error in value.get("errors") or [])
            raise ValueError(f"the episode holds no trace of an agent ({reasons or 'none was made'})")
        for trace in judged:
            yield _trace(trace, value, others)


def _is_judged(trace: dict[str, Any]) -> bool:
    return bool(dict_of(trace.get("agent")).get("trainable", True))


def _trace(trace: dict[str, Any], episode: Mapping[str, Any], others: list[dict[str, Any]]) -> Row:
    nodes = trace.get("nodes") or []
    task, agent = dict_of(trace.get("task")), dict_of(trace.get("agent"))
    data, config = dict_of(task.get("data")), dict_of(agent.get("config"))
    calls = [call for call in trace.get("calls") or [] if isinstance(call, dict)]
    rewards = {name: one for name, one in dict_of(trace.get("rewards")).items() if isinstance(one, dict)}
    errors = [*(trace.get("errors") or []), *(episode.get("errors") or [])]
    broken = not trace.get("ok", not errors)
    not_too_many(len(rewards), MOST_CHECKS, "rewards")
    full = sum(float(one.get("weight", 1)) for one in rewards.values() if float(one.get("weight", 1)) > 0)
    value = sum(float(one["score"]) * float(one.get("weight", 1)) for one in rewards.values())
    usage = [dict_of(call.get("usage")) for call in calls if call.get("usage")]
    finish = calls[-1].get("finish_reason") if calls else None
    condition = trace.get("stop_condition")
    env = dict_of(episode.get("env"))
    leaves = set(range(len(nodes))) - {node.get("parent") for node in nodes}
    error = errors[-1] if errors and broken else None
    kind = dict_of(error).get("type")
    row = {
        "trajectory_id": trace.get("id"),
        "messages": _path(nodes),
        "target": f"verifiers:{env.get('name') or env.get('id') or task.get('type') or 'traces'}",
        "task_id": data.get("name") or task.get("key") or task.get("hash") or data.get("idx"),
        "model": config.get("model") or next((call["model"] for call in calls if call.get("model")), None),
        "reward": value if rewards and not broken else None,
        # The reward of a trace is a weighted sum, so passing means the sum of the weights.
        "success": value >= full - 1e-6 if rewards and not broken and full > 0 else None,
        "usage": {
            "prompt_tokens": sum(
                token_count(one.get(name)) or 0
                for one in usage
                for name in ("prompt_tokens", "cached_input_tokens")
            ),
            "completion_tokens": sum(token_count(one.get("completion_tokens")) or 0 for one in usage),
        }
        if usage
        else None,
        "cost_usd": sum(amount(one.get("cost")) or 0.0 for one in usage) or None,
        "stop_reason": "environment_error"
        if kind in _SCORING
        else _reason(condition, finish, bool(trace.get("is_completed"))),
        "error": error,
        "tools": trace.get("tools") or None,
        "metadata": {
            **({"info": trace["info"]} if trace.get("info") else {}),
            **({"metrics": trace["metrics"]} if trace.get("metrics") else {}),
            **({"branches": len(leaves)} if len(leaves) > 1 else {}),
            **({"answer": data["answer"]} if "answer" in data else {}),
            "stop_condition": condition,
        },
    }
    checks = [
        {
            "name": name,
            "kind": "judge",
            "passed": float(one["score"]) >= 1 - 1e-6,
            "score": float(one["score"]),
            "gates": float(one.get("weight", 1)) > 0,
            "detail": f"weight {one.get('weight', 1)}",
        }
        for name, one in rewards.items()
    ]
    user = next((dict_of(dict_of(one.get("agent")).get("config")).get("model") for one in others), None)
    span = dict_of(dict_of(trace.get("timing")).get("agent"))
    changes: dict[str, Any] = {
        "checks": checks,
        "source_id": episode.get("id"),
        "agent": agent.get("name"),
        "model_options": config.get("sampling") or {},
        "user_policy": user or ("simulated" if others else None),
        "seconds": span["end"] - span["start"] if span.get("end") else None,
    }
    return row, changes


def _path(nodes: list[dict[str, Any]]) -> list[Any]:
    """Return the messages from the root to the last leaf."""
    parents = {node.get("parent") for node in nodes}
    place: int | None = max((n for n in range(len(nodes)) if n not in parents), default=None)
    path: list[Any] = []
    while place is not None:
        if len(path) > len(nodes):
            raise ValueError("the messages form a circle")
        path.append(nodes[place].get("message"))
        place = nodes[place].get("parent")
    return path[::-1]


def _reason(condition: Any, finish: Any, completed: bool) -> str:
    if finish == "length" and condition not in ("context_length", "max_turns"):
        return "length"
    if condition in ("user_closed", "agent_completed") or (condition is None and completed):
        return "completed"
    return str(condition or "")


def _result(value: dict[str, Any], number: int) -> Row:
    """Return a result of version 0; a truncated one is judged, one that broke is not."""
    turns = [_turns(value.get("prompt"), "user"), _turns(value.get("completion"), "assistant")]
    used = dict_of(value.get("token_usage"))
    task = value.get("task")
    row = {
        "messages": [message for part in turns for message in part],
        "id": value.get("id") or f"{value.get('example_id')}-{number}",
        "target": f"verifiers:{task}" if isinstance(task, str) else "verifiers:results",
        "task_id": value.get("example_id"),
        "model": value.get("model"),
        "reward": value.get("reward"),
        "scores": value.get("metrics"),
        "usage": {"prompt_tokens": used.get("input_tokens"), "completion_tokens": used.get("output_tokens")},
        "error": value.get("error"),
        "stop_reason": value.get("stop_condition") or ("length" if value.get("is_truncated") else None),
        "tools": value.get("tool_defs"),
        "metadata": {key: value[key] for key in ("answer", "info", "is_truncated") if value.get(key)},
    }
    timing = dict_of(value.get("timing"))
    seconds = timing.get("total") or (timing["total_ms"] / 1000 if timing.get("total_ms") else None)
    return row, {"seconds": seconds}


def _turns(value: Any, role: str) -> list[Any]:
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    return value if isinstance(value, list) else []
