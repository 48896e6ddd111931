"""The target module of tau2-bench: runs under `trace_assets.targets.process.serve` where `tau2` is installed.

Options: `domain` (airline, retail, telecom, or telecom_solo), `user` (`model`, `scripted` or `none`),
`user_model`, `user_base_url`, `user_temperature` for the simulated user, `score` (`official`, or `live` for
the database hash and assertions of the running environment), `judge` (whether tasks that need a language
model as judge get one), `max_steps` (messages of all sides after which a conversation is cut off), `commit`
for the record.

The environment is driven directly, not through `tau2.gym`. The rules of a conversation are those of tau2's
own orchestrator as `tau2 run` sets it: steps and errors are counted alike, a text beside tool calls reaches
nobody but the evaluator, and only the user ends a conversation. Where tau2 gives up on an agent's message
(an empty one, or in solo one without a call) and plays the task again, the agent has failed here.
"""

from __future__ import annotations

import hashlib
import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import tau2
from tau2.agent.llm_agent import (
    AGENT_INSTRUCTION,
    AGENT_SOLO_INSTRUCTION,
    SYSTEM_PROMPT,
    SYSTEM_PROMPT_SOLO,
    LLMSoloAgent,
)
from tau2.data_model.message import AssistantMessage, MultiToolMessage, ToolCall
from tau2.data_model.simulation import TerminationReason
from tau2.environment.tool import as_tool
from tau2.orchestrator.orchestrator import DEFAULT_FIRST_AGENT_MESSAGE
from tau2.registry import registry
from tau2.user.user_simulator import UserSimulator
from tau2.utils.utils import DATA_DIR
from tau2_grading import ENDED, live_verdict, needs_judge, official_verdict, regraded
from tau2_users import ScriptedUser, UserFailed, model_user

OPERATIONS = ("regrade",)

MAX_ERRORS = 10
MAX_STEPS = 200
MAX_USER_CALLS = 30
"""Calls a simulated user may make before it must speak: one that never stops is a fault of the user."""


class InputRefused(Exception):
    """What was asked for does not exist."""

    fault = "input"


class _State:
    """The target, and the one episode that this process serves."""

    domain = ""
    solo = False
    options: dict[str, Any] = {}
    tasks: dict[str, Any] = {}
    splits: dict[str, Any] = {}
    task: Any = None
    env: Any = None
    user: Any = None
    user_state: Any = None
    messages: list[Any] = []
    errors = 0
    steps = 0
    ended: Any = None


S = _State


def describe(options: Any) -> Any:
    """Name the target, its rules and tools."""
    domain = options.get("domain", "")
    S.solo = domain.endswith("_solo")
    S.domain = domain[: -len("_solo")] if S.solo else domain
    known = ("airline", "retail", "telecom", "mock")
    if S.domain not in known or (S.solo and S.domain != "telecom"):
        raise InputRefused(
            f"there is no domain '{domain}'; there are airline, retail, telecom and telecom_solo"
        )
    defaults = {
        "user": "none" if S.solo else "model",
        "score": "official",
        "judge": False,
        "max_steps": MAX_STEPS,
    }
    S.options = {**defaults, **options}
    if not isinstance(S.options["max_steps"], int) or S.options["max_steps"] < 1:
        raise InputRefused("max_steps must be a whole number, at least 1")
    if S.options["user"] == "model" and not S.options.get("user_model"):
        raise InputRefused(
            "a user by language model needs user_model (and user_base_url); or set user to 'scripted'"
        )
    S.tasks = {task.id: task for task in registry.get_tasks_loader(S.domain)()}
    S.splits = registry.get_task_splits_loader(S.domain)()
    env = _environment()
    provenance = {
        "tau2": getattr(tau2, "__version__", "") or _installed_version(),
        "commit": str(options.get("commit", "")),
        "data": _data_hash(),
        "score": S.options["score"],
        "user": S.options["user"],
        "user_model": str(S.options.get("user_model", "")) if S.options["user"] == "model" else "",
    }
    here = Path(__file__).parent
    code = [path.read_bytes() for path in (Path(__file__), *sorted(here.glob("tau2_*.py")))]
    code += [path.read_bytes() for path in sorted(Path(tau2.__file__).parent.rglob("*.py"))]
    decides = ("user", "user_model", "user_temperature", "score", "judge", "max_steps")
    served = {name: S.options.get(name) for name in decides}
    digest = hashlib.sha256(json.dumps([domain, provenance["data"], served], sort_keys=True).encode())
    for text in code:
        digest.update(hashlib.sha256(text).digest())
    return {
        "name": f"tau2:{domain}",
        "version": digest.hexdigest()[:16],
        "policy": env.get_policy(),
        "tools": _tools(env),
        "provenance": {name: value for name, value in provenance.items() if value},
        "replayable": S.options["user"] != "model" and not S.options["judge"],
    }


def _installed_version() -> Any:
    from importlib.metadata import version

    return version("tau2")


def _data_hash() -> Any:
    """Hash what the domain reads: its database, tasks, splits and policy, and the user's guidelines."""
    folder = DATA_DIR / "tau2"
    parts = [p for p in (folder / "domains" / S.domain).rglob("*") if p.is_file()]
    parts += [p for p in (folder / "user_simulator").glob("*.md")]
    digest = hashlib.sha256()
    for path in sorted(parts):
        if "voice" not in path.name and "audio" not in path.name:
            digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _environment() -> Any:
    options = {"solo_mode": True} if S.solo else {}
    return registry.get_env_constructor(S.domain)(**options)


def _tools(env: Any) -> Any:
    tools = [_tool(tool, env) for tool in env.get_tools()]
    if S.solo:
        tools += [_tool(tool, env) for tool in env.get_user_tools()]
        tools.append({**_done_tool().openai_schema, "mutates": False})
    return tools


def _done_tool() -> Any:
    """Return the tool by which a solo agent ends, as tau2's agent makes it."""

    def done() -> Any:
        """Call this function when you are done with the task."""
        return LLMSoloAgent.STOP_TOKEN

    return as_tool(done)


def _tool(tool: Any, env: Any) -> Any:
    return {**tool.openai_schema, "mutates": bool(env._is_mutating_tool(tool.name))}


def tasks() -> Any:
    """Return tau2's own test split, and its train split in two: a third of it, by hash, is validation."""
    test = set(S.splits.get("test", ()))
    train = [name for name in S.splits.get("train", ()) if name not in test]
    rank = sorted(train, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    held = set(rank[: len(rank) // 3])
    return {
        "discovery": [_row(name) for name in train if name not in held],
        "validation": [_row(name) for name in train if name in held],
        "test": [_row(name) for name in S.splits.get("test", ())],
    }


def _row(name: Any) -> Any:
    task = S.tasks[name]
    instruction = (task.ticket or "") if S.solo else str(task.user_scenario)
    # Many telecom users ask the same and sit before different phones: the state tells the tasks apart.
    state = task.initial_state.model_dump_json() if task.initial_state is not None else ""
    goal = task.evaluation_criteria.model_dump_json() if task.evaluation_criteria is not None else ""
    digest = hashlib.sha256(f"{state}/{goal}".encode()).hexdigest()[:16]
    tags = ["judge"] if needs_judge(task) else []
    return {"id": name, "instruction": instruction, "payload": {"state": digest}, "tags": tags}


def _task(payload: Any) -> Any:
    try:
        return S.tasks[payload["id"]]
    except KeyError:
        raise InputRefused(f"there is no task '{payload.get('id')}' in {S.domain}") from None


def reset(task: Any, seed: Any) -> Any:
    """Begin a conversation: the rules, the agent's greeting and the user's first words, or the ticket."""
    S.task, S.env, S.ended = _task(task), _environment(), None
    # The first message of a solo agent is not counted by tau2's orchestrator.
    S.errors, S.steps = 0, -1 if S.solo else 0
    state = S.task.initial_state
    if state is not None and state.message_history:
        raise InputRefused(f"task '{S.task.id}' starts in the middle of a conversation: not supported")
    S.env.set_state(
        initialization_data=deepcopy(state.initialization_data) if state else None,
        initialization_actions=deepcopy(state.initialization_actions) if state else None,
        message_history=[],
    )
    S.messages, S.user = [], None
    if S.solo:
        instruction = AGENT_SOLO_INSTRUCTION.format(
            stop_function_name=LLMSoloAgent.STOP_FUNCTION_NAME, stop_token=LLMSoloAgent.STOP_TOKEN
        )
        text = SYSTEM_PROMPT_SOLO.format(
            agent_instruction=instruction, domain_policy=S.env.get_policy(), ticket=S.task.ticket
        )
        return {"messages": [{"role": "system", "content": text}]}
    system = SYSTEM_PROMPT.format(domain_policy=S.env.get_policy(), agent_instruction=AGENT_INSTRUCTION)
    S.user = _user(seed)
    S.user_state = S.user.get_init_state()
    greeting = deepcopy(DEFAULT_FIRST_AGENT_MESSAGE)
    S.messages.append(greeting)
    heard = _user_speaks(greeting)
    return {
        "messages": [
            {"role": "system", "content": system},
            {"role": "assistant", "content": greeting.content},
            *heard,
        ]
    }


def _user(seed: Any) -> Any:
    try:
        tools = S.env.get_user_tools(include=S.task.user_tools)
    except Exception:  # tau2 raises ValueError where the domain has none
        tools = None
    if S.options["user"] == "scripted":
        return ScriptedUser(str(S.task.user_scenario), [tool.name for tool in tools or ()])
    return model_user(S.options, S.task, tools, seed)


def step(message: Any) -> Any:
    """Play one message of the agent, and what environment and user make of it."""
    if S.ended is not None:  # the user's first words were its last
        return _end(S.ended)
    calls = message.get("tool_calls") or []
    content = message.get("content") or None
    if not calls and not (content or "").strip():
        return _end(TerminationReason.AGENT_ERROR)
    if S.solo and (not calls or any(c["name"] == LLMSoloAgent.STOP_FUNCTION_NAME for c in calls)):
        finished = bool(calls) or LLMSoloAgent.STOP_TOKEN in (content or "")
        said = AssistantMessage(role="assistant", content=LLMSoloAgent.STOP_TOKEN if finished else content)
        S.messages.append(said)
        answers = [_plain_tool(c["id"], c["name"], LLMSoloAgent.STOP_TOKEN, False) for c in calls]
        reason = TerminationReason.AGENT_STOP if finished else TerminationReason.AGENT_ERROR
        return _end(_counted() or reason, answers)
    if not calls:
        said = AssistantMessage(role="assistant", content=content)
        S.messages.append(said)
        S.ended = _counted()
        heard = _user_speaks(said) if S.ended is None else []
        return _end(S.ended, heard) if S.ended is not None else _goes_on(heard)
    made = [
        ToolCall(id=c["id"], name=c["name"], arguments=_arguments(c), requestor="assistant") for c in calls
    ]
    S.messages.append(AssistantMessage(role="assistant", content=content, tool_calls=made))
    S.steps += 1
    answers = []
    for call, result in zip(made, _answered(made), strict=True):
        answers.append(_plain_tool(call.id, call.name, result.content, bool(result.error)))
    limit = _counted()
    return _end(limit, answers) if limit is not None else _goes_on(answers)


def _answered(calls: Any) -> Any:
    """Let the environment answer calls, the agent's or the user's."""
    results = [S.env.get_response(call) for call in calls]
    S.messages.extend(results)
    S.errors += sum(bool(result.error) for result in results)
    return results


def _counted() -> Any:
    """Count a step, and return the limit that it has reached, as tau2's orchestrator does.

    Not asked while the environment has the word: a call is always answered.
    """
    S.steps += 1
    if S.errors >= MAX_ERRORS:
        return TerminationReason.TOO_MANY_ERRORS
    return TerminationReason.MAX_STEPS if S.steps >= S.options["max_steps"] else None


def _arguments(call: Any) -> Any:
    arguments = call.get("arguments")
    return arguments if isinstance(arguments, dict) else {}


def _plain_tool(number: Any, name: Any, content: Any, error: Any) -> Any:
    return {
        "role": "tool",
        "content": content or "",
        "tool_call_id": number,
        "tool_name": name,
        "is_error": error,
    }


def _goes_on(heard: Any) -> Any:
    return {"messages": heard, "done": False, "truncated": False}


def _end(reason: Any, answers: Any = ()) -> Any:
    S.ended = reason
    done = reason in (*ENDED, TerminationReason.AGENT_ERROR)
    return {"messages": list(answers), "done": done, "truncated": not done}


def _user_speaks(message: Any) -> Any:
    """Let the user answer, its own tool calls first; return its words as the agent hears them."""
    heard = message
    for _ in range(MAX_USER_CALLS):
        said, S.user_state = S.user.generate_next_message(heard, S.user_state)
        S.messages.append(said)
        if not said.is_tool_call():
            if not (said.content or "").strip():
                raise UserFailed("it said nothing")
            stopped = TerminationReason.USER_STOP if UserSimulator.is_stop(said) else None
            S.ended = _counted() or stopped
            return [{"role": "user", "content": said.content}]
        S.steps += 1
        results = _answered(said.tool_calls)
        S.ended = _counted()
        if S.ended is not None:
            return []
        heard = results[0] if len(results) == 1 else MultiToolMessage(role="tool", tool_messages=results)
    raise UserFailed(f"it made {MAX_USER_CALLS} calls in a row and never spoke")


def verdict() -> Any:
    """Judge the conversation as it stands."""
    reason = S.ended or TerminationReason.MAX_STEPS
    if S.options["score"] == "live" and reason in ENDED:
        return live_verdict(S.task, S.env, _environment, S.messages)
    return official_verdict(S.task, S.messages, reason, S.domain, S.solo, S.options["judge"])


def oracle(task: Any) -> Any:
    """Return the reference solution as an agent's messages: for tests, with the scripted user.

    What the reference lets the user do is asked of the user in words that the scripted one follows.
    """
    task = _task(task)
    messages: list[Any] = []
    number = 0
    for action in task.evaluation_criteria.actions or []:
        number += 1
        if action.requestor == "user" and not S.solo:
            words = f"Please do this now: {action.name} {json.dumps(action.arguments)}"
            messages.append({"role": "assistant", "content": words})
            continue
        call = {"id": f"oracle_{number}", "name": action.name, "arguments": action.arguments}
        messages.append({"role": "assistant", "tool_calls": [call]})
    if S.solo:
        call = {"id": "oracle_done", "name": LLMSoloAgent.STOP_FUNCTION_NAME, "arguments": {}}
        return [*messages, {"role": "assistant", "tool_calls": [call]}]
    told = " ".join(task.evaluation_criteria.communicate_info or [])
    return [*messages, {"role": "assistant", "content": f"All done. {told} Goodbye.".replace("  ", " ")}]


def regrade(simulation: Any, task: Any) -> Any:
    """Judge a recorded simulation by the official evaluator, on the task as it was recorded."""
    return regraded(simulation, task, S.domain, S.solo, S.options["judge"])
