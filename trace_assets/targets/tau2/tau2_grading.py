"""Verdicts of tau2-bench conversations: by the official evaluator, or by the live environment's state."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from tau2.data_model.simulation import SimulationRun, TerminationReason
from tau2.data_model.tasks import RewardType, Task
from tau2.evaluator.evaluator import EvaluationType, evaluate_simulation
from tau2.evaluator.evaluator_action import ActionEvaluator
from tau2.evaluator.evaluator_communicate import CommunicateEvaluator
from tau2.utils.utils import get_now

ENDED = (TerminationReason.AGENT_STOP, TerminationReason.USER_STOP)
KINDS = {
    "DB": "state",
    "ENV_ASSERTION": "state",
    "ACTION": "action",
    "COMMUNICATE": "communicate",
    "NL_ASSERTION": "judge",
}


def _check(name: str, passed: Any, score: Any = None, detail: str = "", kind: str = "") -> Any:
    return {
        "name": name,
        "kind": kind or KINDS[name],
        "passed": passed,
        "score": score,
        "gates": True,
        "detail": detail[:500],
    }


def needs_judge(task: Any) -> Any:
    """Say whether a language model judges a part: tasks name the basis even where they assert nothing."""
    criteria = task.evaluation_criteria
    wanted = criteria is not None and RewardType.NL_ASSERTION in criteria.reward_basis
    return bool(wanted and criteria.nl_assertions)


def official_verdict(
    task: Any, messages: Any, reason: Any, domain: Any, solo: Any, judge: Any, strict: Any = True
) -> Any:
    """Judge by tau2's evaluator.

    A judge that is not there leaves its check open: reward and success are then None, unless another part
    of the basis has failed already.
    """
    run = SimulationRun(
        id="trace",
        task_id=task.id,
        start_time=get_now(),
        end_time=get_now(),
        duration=0.0,
        termination_reason=reason.value,
        messages=messages,
    )
    open_judge = needs_judge(task) and not judge and reason in ENDED
    info = evaluate_simulation(
        simulation=run,
        task=_without_judge(task) if open_judge else task,
        evaluation_type=EvaluationType.ALL,
        solo_mode=solo,
        domain=domain,
        strict_replay=strict,
    )
    if reason not in ENDED or task.evaluation_criteria is None:
        passed = info.reward >= 1.0
        told = f"ended by {reason.value}"
        check = _check("conversation_ended", passed, info.reward, detail=told, kind="protocol")
        return {"reward": float(info.reward), "success": passed, "checks": [check]}
    parts = dict(info.reward_breakdown or {})
    return _verdict(task, {**parts, RewardType.NL_ASSERTION: None} if open_judge else parts, info)


def _without_judge(task: Any) -> Any:
    """Return the task as it would be judged without a language model."""
    without = deepcopy(task)
    basis = without.evaluation_criteria.reward_basis
    without.evaluation_criteria.reward_basis = [one for one in basis if one != RewardType.NL_ASSERTION]
    return without


def _verdict(task: Any, parts: Any, info: Any) -> Any:
    checks, known = [], []
    for basis, value in parts.items():
        name = getattr(basis, "value", str(basis))
        if value is None:
            checks.append(_check(name, None, detail="it needs a language model as judge, and none was asked"))
            continue
        known.append(float(value))
        checks.append(_check(name, value >= 1.0, float(value), detail=_told(name, info)))
    if any(value < 1.0 for value in known):
        return {"reward": 0.0, "success": False, "checks": checks}
    if len(known) < len(parts):
        return {"reward": None, "success": None, "checks": checks}
    return {"reward": 1.0, "success": True, "checks": checks}


def _told(name: Any, info: Any) -> Any:
    if name == "ENV_ASSERTION" and info.env_assertions:
        missed = [c.env_assertion.func_name for c in info.env_assertions if not c.met]
        return "not met: " + ", ".join(missed) if missed else ""
    if name == "COMMUNICATE" and info.communicate_checks:
        missed = [c.info for c in info.communicate_checks if not c.met]
        return "not said: " + ", ".join(missed) if missed else ""
    if name == "ACTION" and info.action_checks:
        missed = [c.action.name for c in info.action_checks if not c.action_match]
        return "not done: " + ", ".join(missed) if missed else ""
    if name == "DB" and info.db_check is not None and not info.db_check.db_match:
        return "the database differs from the reference"
    return ""


_GOLD: dict[str, Any] = {}


def _gold(task: Any, construct: Any) -> Any:
    """Return the database hashes after the reference actions, computed once a task and process."""
    if task.id not in _GOLD:
        env, state = construct(), task.initial_state
        env.set_state(
            initialization_data=deepcopy(state.initialization_data) if state else None,
            initialization_actions=deepcopy(state.initialization_actions) if state else None,
            message_history=[],
        )
        for action in task.evaluation_criteria.actions or []:
            try:
                env.make_tool_call(action.name, requestor=_requestor(env, action), **action.arguments)
            except Exception:  # some references hold calls that the environment refuses, as tau2's own grader
                continue
        env.sync_tools()
        _GOLD[task.id] = env.get_db_hash(), env.get_user_db_hash()
    return _GOLD[task.id]


def _requestor(env: Any, action: Any) -> Any:
    return "assistant" if env.solo_mode else action.requestor


def live_verdict(task: Any, env: Any, construct: Any, messages: Any) -> Any:
    """Judge by the state that the conversation has left: no replay, for training."""
    criteria = task.evaluation_criteria
    if criteria is None:
        return {"reward": 1.0, "success": True, "checks": []}
    parts: dict[Any, float | None] = {}
    details: dict[str, str] = {}
    for basis in criteria.reward_basis:
        if basis == RewardType.DB:
            same = (env.get_db_hash(), env.get_user_db_hash()) == _gold(task, construct)
            parts[basis] = float(same)
            details["DB"] = "" if same else "the database differs from the reference"
        elif basis == RewardType.ENV_ASSERTION:
            missed = [
                one.func_name
                for one in criteria.env_assertions or []
                if not env.run_env_assertion(one, raise_assertion_error=False)
            ]
            parts[basis] = float(not missed)
            details["ENV_ASSERTION"] = "not met: " + ", ".join(missed) if missed else ""
        elif basis == RewardType.COMMUNICATE:
            parts[basis] = CommunicateEvaluator.calculate_reward(task=task, full_trajectory=messages).reward
        elif basis == RewardType.ACTION:
            parts[basis] = ActionEvaluator.calculate_reward(task=task, full_trajectory=messages).reward
        elif basis == RewardType.NL_ASSERTION and not criteria.nl_assertions:
            parts[basis] = 1.0
        else:
            parts[basis] = None
    judged = _verdict(task, parts, _Nothing)
    for check in judged["checks"]:
        check["detail"] = check["detail"] or details.get(check["name"], "")
    return judged


class _Nothing:
    """An evaluation without details."""

    env_assertions = communicate_checks = action_checks = db_check = None


def regraded(simulation: Any, task: Any, domain: Any, solo: Any, judge: Any) -> Any:
    """Judge a recorded simulation on its recorded task; cosmetic drift of tool results is let pass."""
    task = Task.model_validate(task)
    run = SimulationRun.model_validate(simulation)
    reason = TerminationReason(run.termination_reason)
    verdict = official_verdict(task, run.messages, reason, domain, solo, judge, strict=False)
    recorded = run.reward_info.reward if run.reward_info is not None else None
    return {"reward": verdict["reward"], "recorded": recorded, "checks": verdict["checks"]}
