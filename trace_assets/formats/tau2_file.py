"""What all simulations of a tau2 file share: the head of a trajectory that follows from it, and messages."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trace_assets.formats.batch_files import batch_of
from trace_assets.formats.chat import MOST_CALLS, MOST_MESSAGES
from trace_assets.formats.fields import amount, dict_of, list_of, not_too_many
from trace_assets.formats.outcome import MOST_CHECKS
from trace_assets.records import Check, CheckKind, ExpectedAction, Message, Task, ToolCall
from trace_assets.records.trajectory import Fault, Stop
from trace_assets.untrusted.json_text import read_embedded

_STOPS: Mapping[str, Stop] = {
    "user_stop": "completed",
    "agent_stop": "completed",
    "max_steps": "max_turns",
    "too_many_errors": "agent_error",
    "agent_error": "agent_error",
    "user_error": "user_error",
    "environment_error": "environment_error",
    "infrastructure_error": "infrastructure_error",
    "unexpected_error": "infrastructure_error",
    "context_window_exceeded": "context_overflow",
}
_FAULTS: Mapping[Stop, Fault] = {
    "user_error": "user_simulator",
    "environment_error": "environment",
    "infrastructure_error": "infrastructure",
}
_LIMITS: Mapping[str, str] = {
    "max_steps": "messages",
    "too_many_errors": "errors",
    "timeout": "time",
    "context_window_exceeded": "context",
}
_TRANSFER = "###TRANSFER###"


@dataclass(frozen=True)
class Tau2File:
    """The facts that all simulations of a file share.

    Attributes:
        path: The file.
        target: Where the tasks live, such as `tau2:retail`.
        batch: The task batch, from the file's name.
        policy: The agent's model.
        user_policy: The simulated user's model; None for solo agents.
        agent: The agent program.
        model_options: How the agent's model was sampled.
        commit: Of tau2 itself.
        solo: Whether the agent works alone on a ticket.
        uri: Where the file lies.
        domain_policy: The domain's rules as the file records them. Solo agents read another version of them,
            which no file holds: theirs is empty.
        tasks: The raw tasks by id.
    """

    path: Path
    target: str
    batch: str
    policy: str
    user_policy: str | None
    agent: str | None
    model_options: dict[str, Any]
    commit: str | None
    solo: bool
    uri: str
    domain_policy: str
    tasks: Mapping[str, dict[str, Any]] = field(repr=False)

    @classmethod
    def of(cls, path: Path, content: Any) -> Tau2File:
        """Read the facts from a file's content, with or without its simulations.

        Raises:
            ValueError: It is not a simulation file; the message says what is missing.
        """
        if not isinstance(content, dict):
            raise ValueError(f"a tau2 simulation file is a JSON object, not a {type(content).__name__}")
        if not isinstance(content.get("simulations"), list):
            raise ValueError("there is no list 'simulations', which a tau2 simulation file has")
        info = dict_of(content.get("info"))
        tasks = [task for task in list_of(content.get("tasks")) if isinstance(task, dict) and "id" in task]
        agent, user = dict_of(info.get("agent_info")), dict_of(info.get("user_info"))
        domain = dict_of(info.get("environment_info")).get("domain_name") or _told_domain(tasks)
        if not isinstance(domain, str) or not domain:
            raise ValueError(
                "neither 'info.environment_info.domain_name' nor any task names the domain, so the target is "
                "not known"
            )
        solo = "solo" in str(agent.get("implementation", ""))
        return cls(
            path=path,
            target=f"tau2:{domain}_solo" if solo else f"tau2:{domain}",
            batch=batch_of(path),
            policy=str(agent.get("llm") or agent.get("implementation") or _named_model(path, domain)),
            user_policy=None if solo else str(user.get("llm") or user.get("implementation") or "") or None,
            agent=str(agent["implementation"]) if agent.get("implementation") else None,
            model_options=dict_of(agent.get("llm_args")),
            commit=str(info["git_commit"]) if info.get("git_commit") else None,
            solo=solo,
            uri=str(path.absolute()),
            domain_policy="" if solo else str(dict_of(info.get("environment_info")).get("policy") or ""),
            tasks={str(task["id"]): task for task in tasks},
        )

    def ticket(self, task_id: str) -> str | None:
        """Return what a solo agent was asked."""
        ticket = self.tasks.get(task_id, {}).get("ticket") if self.solo else None
        return str(ticket) if ticket else None

    def task(self, task_id: str) -> Task:
        """Return the row of the table `tasks`."""
        task = self.tasks.get(task_id, {})
        return Task(
            task_id=f"{self.target}/{task_id}",
            target=self.target,
            task_batch=self.batch,
            instruction=_instruction(task, self.solo),
            payload={"domain": self.target.removeprefix("tau2:"), "id": task_id, "task": task},
            domain_policy=self.domain_policy,
            **_expected(task),
        )

    def head(
        self, simulation: Mapping[str, Any], n_messages: int, last: str, tokens: tuple[int | None, int | None]
    ) -> tuple[dict[str, Any], str]:
        """Return the fields of a trajectory's head, and the sentence on a missing reward.

        Args:
            simulation: The simulation; its messages are not looked at.
            n_messages: How many there are.
            last: What the last of them says.
            tokens: The agent's prompt and completion tokens.
        """
        reason = str(simulation.get("termination_reason"))
        stop: Stop = _STOPS.get(reason, "unknown")
        if stop == "completed" and _TRANSFER in last:
            stop = "transferred"
        fault = _FAULTS.get(stop)
        reward, notice = read_reward(simulation)
        if fault == "infrastructure":
            reward = None
            notice = "the simulation ended by an infrastructure error, so it is kept as not judged"
        date = simulation.get("start_time") or simulation.get("timestamp")
        values = {
            "trajectory_id": str(simulation["id"]),
            "task_id": f"{self.target}/{simulation['task_id']}",
            "target": self.target,
            "task_batch": self.batch,
            "trial": simulation.get("trial") or 0,
            "seed": simulation.get("seed"),
            "policy": self.policy,
            "user_policy": self.user_policy,
            "success": None if reward is None else reward >= 1 - 1e-6,
            "reward": reward,
            "stop": stop,
            "fault": fault,
            "error": f"tau2 ended the simulation: {reason}" if fault else None,
            "n_messages": n_messages,
            "prompt_tokens": tokens[0],
            "completion_tokens": tokens[1],
            # tau2 writes 0.0 for models whose price it does not know.
            "cost_usd": amount(simulation.get("agent_cost")) or None,
            "seconds": amount(simulation.get("duration")),
            "source": f"tau2:{self.path.name}",
            "source_id": self.commit,
            "source_uri": self.uri,
            "date": date if isinstance(date, str) else None,
            "agent": self.agent,
            "model_options": self.model_options,
            "limit": _LIMITS.get(reason),
            "metadata": {"termination_reason": reason},
        }
        return values, notice


def _told_domain(tasks: list[dict[str, Any]]) -> str | None:
    """Return the domain that the tasks name; None when they name none, or several."""
    scenarios = [dict_of(dict_of(task.get("user_scenario")).get("instructions")) for task in tasks]
    named = {str(told["domain"]) for told in scenarios if told.get("domain")}
    return named.pop() if len(named) == 1 else None


def _named_model(path: Path, domain: str) -> str:
    """Return the model that a file's name begins with, as tau2 names files: `model_domain_agent_...`.

    >>> _named_model(Path("m-1_retail_default_u-2_4trials.json"), "retail"), _named_model(Path("a.json"), "x")
    ('m-1', 'a')
    """
    name = path.absolute().parent.name if path.name == "results.json" else path.stem
    return name.partition(f"_{domain}_")[0] or name


def _instruction(task: Mapping[str, Any], solo: bool) -> str:
    """Return what the task's user is told (or the ticket of a solo agent), as paragraphs."""
    if solo and task.get("ticket"):
        return str(task["ticket"])
    scenario = task.get("user_scenario") or {}
    told = scenario.get("instructions") if isinstance(scenario, dict) else scenario
    if isinstance(told, dict):
        keys = ("reason_for_call", "known_info", "unknown_info", "task_instructions")
        return "\n\n".join(str(told[key]).strip() for key in keys if told.get(key))
    return str(told or "")


def _expected(task: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a task's ground truth says should be done and told."""
    criteria = task.get("evaluation_criteria")
    if not isinstance(criteria, dict):
        return {}
    actions = [action for action in list_of(criteria.get("actions")) if isinstance(action, dict)]
    return {
        "has_expected": True,
        "expected_actions": tuple(_action(action) for action in actions if action.get("name")),
        "expected_outputs": tuple(str(told) for told in list_of(criteria.get("communicate_info"))),
    }


def _action(action: Mapping[str, Any]) -> ExpectedAction:
    compared, arguments = action.get("compare_args"), action.get("arguments")
    return ExpectedAction(
        name=str(action["name"]),
        arguments=arguments if isinstance(arguments, dict) else {},
        requestor="user" if action.get("requestor") == "user" else "assistant",
        compared=tuple(str(name) for name in compared) if isinstance(compared, list) else None,
    )


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
