"""The reward and the checks of a tau2 simulation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from trace_assets.importers.outcome import MOST_CHECKS, not_too_many
from trace_assets.records import Check, CheckKind


def read_reward(simulation: Mapping[str, Any]) -> tuple[float | None, str]:
    """Return the reward, or None and the sentence that says why there is none.

    >>> read_reward({"reward_info": {"reward": 1.0}})
    (1.0, '')
    >>> read_reward({"reward_info": None})[0] is None
    True
    """
    info = simulation.get("reward_info")
    value = info.get("reward") if isinstance(info, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None, "there is no reward, so the trajectory is kept as not judged"
    if not math.isfinite(value):
        return None, f"the reward is {value}, so the trajectory is kept as not judged"
    return float(value), ""


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
