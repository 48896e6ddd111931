"""tau2-bench simulation files: `{timestamp, info, tasks[], simulations[]}`.

What is read, and what is made of it, is in `Tau2Importer.read`; rewards and checks are in `tau2_reward`.
A solo agent reads its ticket in its system prompt, which the file does not keep with the messages: the
ticket is put first as a user message, so that a transcript holds all that the agent was asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from trace_assets.importers.problem import Problem
from trace_assets.importers.tau2_messages import read_messages
from trace_assets.importers.tau2_reward import read_checks, read_reward
from trace_assets.records import Message, Task, Trajectory
from trace_assets.records.trajectory import Fault
from trace_assets.records.verdict import Stop

_STOPS: Mapping[str, Stop] = {
    "user_stop": "completed",
    "agent_stop": "completed",
    "max_steps": "max_turns",
    "too_many_errors": "agent_error",
    "agent_error": "agent_error",
    "user_error": "user_error",
    "environment_error": "environment_error",
    "infrastructure_error": "infrastructure_error",
}
_FAULTS: Mapping[Stop, Fault] = {
    "user_error": "user_simulator",
    "environment_error": "environment",
    "infrastructure_error": "infrastructure",
}
_TRANSFER = "###TRANSFER###"
_MARKS = (b'"simulations"', b'"agent_info"', b'"user_info"', b'"environment_info"', b'"num_trials"')


class Tau2Importer:
    """Reads the simulation files that tau2-bench writes."""

    name = "tau2"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Tell whether the file begins like a tau2 simulation file."""
        return head.lstrip()[:1] == b"{" and sum(mark in head for mark in _MARKS) >= 2

    def read(self, path: Path) -> Iterator[Task | Trajectory | Problem]:
        """Yield the tasks that were simulated, the trajectories, and what could not be read."""
        data = path.read_bytes()
        truncated = False
        try:
            content = from_json(data, cache_strings="keys")
        except ValueError as error:
            reason, _, where = str(error).partition(" at ")
            content = _rescue(data)
            truncated = True
            kept = len(content.get("simulations") or []) if isinstance(content, dict) else 0
            message = f"the file breaks off or is damaged here ({reason}); "
            message += (
                f"the {kept} simulations before it are read" if kept else "nothing before it can be read"
            )
            yield Problem(path=str(path), position=where, message=message)
            if not kept:
                return
        try:
            file = _File(path, content)
        except ValueError as error:
            if not truncated:
                yield Problem(path=str(path), message=str(error))
            return
        yield from file.items()


def _rescue(data: bytes) -> Any:
    """Return what a broken file holds before the break; its last, perhaps halved simulation is dropped."""
    try:
        content = from_json(data, allow_partial=True)
    except ValueError:
        return None
    if isinstance(content, dict) and isinstance(content.get("simulations"), list):
        content["simulations"] = content["simulations"][:-1]
    return content


class _File:
    """One parsed simulation file: the facts that all its simulations share.

    Raises:
        ValueError: It is not a simulation file; the message says what is missing.
    """

    def __init__(self, path: Path, content: Any) -> None:
        if not isinstance(content, dict):
            raise ValueError(f"a tau2 simulation file is a JSON object, not a {type(content).__name__}")
        for key, kind in (("info", dict), ("simulations", list)):
            if not isinstance(content.get(key), kind):
                raise ValueError(f"there is no {kind.__name__} '{key}', which a tau2 simulation file has")
        self.path, self.simulations = path, content["simulations"]
        info = content["info"]
        agent, user = _object(info, "agent_info"), _object(info, "user_info")
        domain = _object(info, "environment_info").get("domain_name")
        if not isinstance(domain, str) or not domain:
            raise ValueError("'info.environment_info.domain_name' is missing, so the target is not known")
        self.solo = "solo" in str(agent.get("implementation", ""))
        self.target = f"tau2:{domain}_solo" if self.solo else f"tau2:{domain}"
        self.batch = re.sub(r"[^A-Za-z0-9_-]+", "-", path.stem)
        self.policy = str(agent.get("llm") or agent.get("implementation") or path.stem)
        self.user_policy = (
            None if self.solo else str(user.get("llm") or user.get("implementation") or "") or None
        )
        self.commit = info.get("git_commit")
        self.tasks: dict[str, dict[str, Any]] = {
            str(task["id"]): task
            for task in content.get("tasks") or []
            if isinstance(task, dict) and "id" in task
        }

    def items(self) -> Iterator[Task | Trajectory | Problem]:
        known = set[str]()
        for number, simulation in enumerate(self.simulations):
            position = f"simulations[{number}]"
            try:
                task_id = self._task_id(simulation)
                trajectory, notice = self._trajectory(simulation, task_id)
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(str(part) for part in first["loc"])
                message = f"'{where}' is not usable ({first['msg']}); this simulation is left out"
                yield Problem(path=str(self.path), position=position, message=message)
                continue
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                message = f"{error}; this simulation is left out"
                yield Problem(path=str(self.path), position=position, message=message)
                continue
            if task_id not in known:
                known.add(task_id)
                yield self._task(task_id)
            if notice:
                yield Problem(path=str(self.path), position=position, message=notice, severity="notice")
            yield trajectory

    def _task_id(self, simulation: Any) -> str:
        if not isinstance(simulation, dict):
            raise ValueError(f"a simulation is a JSON object, not a {type(simulation).__name__}")
        for key in ("id", "task_id"):
            if simulation.get(key) in (None, ""):
                raise ValueError(f"there is no '{key}'")
        return str(simulation["task_id"])

    def _task(self, task_id: str) -> Task:
        task = self.tasks.get(task_id, {})
        payload = {"domain": self.target.removeprefix("tau2:"), "id": task_id, "task": task}
        return Task(
            task_id=f"{self.target}/{task_id}",
            target=self.target,
            task_batch=self.batch,
            instruction=_instruction(task, self.solo),
            payload=payload,
        )

    def _trajectory(self, simulation: dict[str, Any], task_id: str) -> tuple[Trajectory, str]:
        raw = simulation.get("messages")
        if not isinstance(raw, list):
            raise ValueError("there is no list 'messages'")
        messages = list(read_messages(raw))
        ticket = self.tasks.get(task_id, {}).get("ticket") if self.solo else None
        if ticket:
            messages.insert(0, Message(role="user", content=str(ticket)))
        reason = str(simulation.get("termination_reason"))
        stop: Stop = _STOPS.get(reason, "unknown")
        if stop == "completed" and messages and _TRANSFER in (messages[-1].content or ""):
            stop = "transferred"
        fault = _FAULTS.get(stop)
        reward, notice = read_reward(simulation)
        if fault == "infrastructure":
            reward, notice = (
                None,
                "the simulation ended by an infrastructure error, so it is kept as not judged",
            )
        spent = [usage for message in raw if (usage := _usage(message))]
        trajectory = Trajectory(
            trajectory_id=str(simulation["id"]),
            task_id=f"{self.target}/{task_id}",
            target=self.target,
            task_batch=self.batch,
            trial=simulation.get("trial") or 0,
            seed=simulation.get("seed"),
            policy=self.policy,
            user_policy=self.user_policy,
            success=None if reward is None else reward >= 1 - 1e-6,
            reward=reward,
            stop=stop,
            fault=fault,
            error=f"tau2 ended the simulation: {reason}" if fault else None,
            n_messages=len(messages),
            prompt_tokens=sum(int(usage.get("prompt_tokens") or 0) for usage in spent) if spent else None,
            completion_tokens=sum(int(usage.get("completion_tokens") or 0) for usage in spent)
            if spent
            else None,
            # tau2 writes 0.0 for models whose price it does not know.
            cost_usd=simulation.get("agent_cost") or None,
            seconds=simulation.get("duration"),
            source=f"tau2:{self.path.name}",
            messages=tuple(messages),
            checks=tuple(read_checks(simulation.get("reward_info"))),
        )
        return trajectory, notice


def _object(parent: dict[str, Any], key: str) -> dict[str, Any]:
    value = parent.get(key)
    return value if isinstance(value, dict) else {}


def _usage(message: Any) -> dict[str, Any] | None:
    usage = message.get("usage") if isinstance(message, dict) and message.get("role") == "assistant" else None
    return usage if isinstance(usage, dict) else None


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
