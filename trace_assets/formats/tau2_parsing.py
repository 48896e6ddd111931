"""The messages of a tau2 simulation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from trace_assets.formats.chat import MOST_CALLS, MOST_MESSAGES
from trace_assets.formats.fields import not_too_many
from trace_assets.formats.outcome import MOST_CHECKS
from trace_assets.records import Check, CheckKind, Message, ToolCall
from trace_assets.untrusted.json_text import read_embedded


def read_messages(raw: list[Any]) -> Iterator[Message]:
    """Yield the messages, several results of one turn one by one, each result with its tool's name.

    Raises:
        ValueError: A message is not an object or has an unknown role.
    """
    names: dict[str, str] = {}
    flat = [part for message in raw for part in (_object_list(message, "tool_messages") or [message])]
    not_too_many(len(flat), MOST_MESSAGES, "messages")
    for number, message in enumerate(flat):
        if not isinstance(message, dict):
            raise ValueError(f"messages[{number}] is not an object")
        role = message.get("role")
        if role not in ("system", "user", "assistant", "tool"):
            raise ValueError(f"messages[{number}] has the unknown role {role!r}")
        by = "user" if role == "user" or message.get("requestor") == "user" else "assistant"
        not_too_many(len(message.get("tool_calls") or ()), MOST_CALLS, "tool calls in one message")
        calls = tuple(_call(call, number) for call in message.get("tool_calls") or ())
        names.update((call.id, call.name) for call in calls)
        answered = str(message.get("id")) if role == "tool" else None
        yield Message(
            role=role,
            content=message.get("content"),
            tool_calls=calls,
            tool_call_id=answered,
            tool_name=names.get(answered) if answered else None,
            is_error=bool(message.get("error")) if role == "tool" else False,
            requestor="user" if by == "user" else "assistant",
            metadata=_metadata(message),
        )


def metadata_of(reasoning: Any, errors: Any, tokens: int | None) -> dict[str, Any]:
    """Return what is kept of a message besides its words.

    Args:
        reasoning: What the agent thought.
        errors: The program's account of messages that it refused in this one's place.
        tokens: Tokens that were generated for a message that says nothing.
    """
    kept = {"reasoning": reasoning, "errors": errors, "completion_tokens": tokens}
    return {name: value for name, value in kept.items() if value}


def _metadata(message: dict[str, Any]) -> dict[str, Any]:
    usage = message.get("usage")
    silent = (
        message.get("role") == "assistant" and not message.get("content") and not message.get("tool_calls")
    )
    tokens = usage.get("completion_tokens") if silent and isinstance(usage, dict) else None
    return metadata_of(message.get("reasoning"), message.get("errors"), tokens)


def _object_list(message: Any, key: str) -> list[Any] | None:
    value = message.get(key) if isinstance(message, dict) else None
    return value if isinstance(value, list) else None


def _call(call: Any, number: int) -> ToolCall:
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        raise ValueError(f"messages[{number}] has a tool call without a name")
    arguments = call.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = read_embedded(arguments)
        except ValueError:
            arguments = {"raw": arguments}
    return ToolCall(
        id=str(call.get("id") or f"call_{number}"),
        name=call["name"],
        arguments=arguments if isinstance(arguments, dict) else {},
    )


# The reward and the checks of a tau2 simulation.


TOLERANCE = 1e-6
"""A reward is a product of fractions: so far it may lie outside 0 to 1."""


def read_reward(simulation: Mapping[str, Any]) -> tuple[float | None, str]:
    """Return the reward, or None and the sentence that says why there is none.

    >>> read_reward({"reward_info": {"reward": 1.0}})
    (1.0, '')
    >>> read_reward({"reward_info": None})[0] is None
    True
    >>> read_reward({"reward_info": {"reward": 2.0}})
    (None, 'the reward is 2.0 and not from 0 to 1, so the trajectory is kept as not judged')
    """
    info = simulation.get("reward_info")
    value = info.get("reward") if isinstance(info, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None, "there is no reward, so the trajectory is kept as not judged"
    reward = float(value)
    if not math.isfinite(reward):
        return None, f"the reward is {reward}, so the trajectory is kept as not judged"
    if not -TOLERANCE <= reward <= 1 + TOLERANCE:
        return None, f"the reward is {value} and not from 0 to 1, so the trajectory is kept as not judged"
    return reward, ""


CheckValues = tuple[str, CheckKind, bool | None, float | None, bool, str]
"""name, kind, passed, score, gates, detail: the fields of `Check` in their order."""


def read_checks(info: Any) -> Iterator[Check]:
    """Yield the checks of `reward_info`; those outside the task's `reward_basis` do not gate success."""
    for name, kind, passed, score, gates, detail in check_values(info):
        yield Check(name=name, kind=kind, passed=passed, score=score, gates=gates, detail=detail)


def check_values(info: Any) -> Iterator[CheckValues]:
    """Yield what `read_checks` yields, as plain values."""
    if not isinstance(info, dict):
        return
    basis = {str(part).rpartition(".")[2].upper() for part in info.get("reward_basis") or ()}
    database = info.get("db_check")
    if isinstance(database, dict):
        yield _check("db", "state", database.get("db_match"), database.get("db_reward"), "DB" in basis)
    for number, item in enumerate(_list(info, "env_assertions")):
        assertion = item.get("env_assertion") or {}
        name = f"env_assertion/{number}/{assertion.get('func_name', '')}"
        detail = f"{assertion.get('arguments')} expected {assertion.get('assert_value')}"
        yield _check(name, "state", item.get("met"), item.get("reward"), "ENV_ASSERTION" in basis, detail)
    for number, item in enumerate(_list(info, "action_checks")):
        action = item.get("action") or {}
        name = f"action/{number}/{action.get('name', '')}"
        passed, score = item.get("action_match"), item.get("action_reward")
        yield _check(name, "action", passed, score, "ACTION" in basis, str(action.get("arguments", "")))
    judged = "NL_ASSERTION" in basis
    for number, item in enumerate(_list(info, "nl_assertions")):
        detail = f"{item.get('nl_assertion', '')} | {item.get('justification', '')}"
        yield _check(f"nl_assertion/{number}", "judge", item.get("met"), None, judged, detail)
    told = "COMMUNICATE" in basis
    for number, item in enumerate(_list(info, "communicate_checks")):
        detail = f"{item.get('info', '')} | {item.get('justification', '')}"
        yield _check(f"communicate/{number}", "communicate", item.get("met"), None, told, detail)


def _list(info: dict[str, Any], key: str) -> list[dict[str, Any]]:
    not_too_many(len(info.get(key) or ()), MOST_CHECKS, key)
    return [item for item in info.get(key) or () if isinstance(item, dict)]


def _check(name: str, kind: CheckKind, passed: Any, score: Any, gates: bool, detail: str = "") -> CheckValues:
    return (
        name,
        kind,
        passed if isinstance(passed, bool) else None,
        float(score) if isinstance(score, int | float) else None,
        gates,
        detail,
    )
