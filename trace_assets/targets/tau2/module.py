"""The target module of tau2-bench: runs under `trace_assets.targets.process.serve` where `tau2` is installed.

Options: `domain` (airline, retail, telecom, or telecom_solo), `user` (`model`, `scripted` or `none`),
`user_model`, `user_base_url`, `user_temperature` for the simulated user, `score` (`official`, or `live` for
the database hash and assertions of the running environment), `judge` (whether tasks that need a language
model as judge get one), `commit` for the record.

The environment is driven directly, not through `tau2.gym`. The rules of a conversation are those of tau2's
own orchestrator with `validate_communication`: a message is text or tool calls, never both and never empty.
"""

from __future__ import annotations

import hashlib
import json
from copy import deepcopy
from pathlib import Path
from typing import Any

from tau2_grading import ENDED, live_verdict, official_verdict, regraded
from tau2_users import ScriptedUser, UserFailed, model_user

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
from tau2.orchestrator.orchestrator import DEFAULT_FIRST_AGENT_MESSAGE
from tau2.registry import registry
from tau2.user.user_simulator import UserSimulator
from tau2.utils.utils import DATA_DIR

OPERATIONS = ("regrade",)

MAX_ERRORS = 10
MAX_USER_CALLS = 30
"""Calls a simulated user may make before it must speak: one that never stops is a fault of the user."""
DONE = {
    "type": "function",
    "function": {
        "name": LLMSoloAgent.STOP_FUNCTION_NAME,
        "description": "Call this function when you are done with the task.",
        "parameters": {"type": "object", "properties": {}},
    },
}


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
    defaults = {"user": "none" if S.solo else "model", "score": "official", "judge": False}
    S.options = {**defaults, **options}
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
    code = [path.read_bytes() for path in sorted(here.glob("*.py"))]
    code += [path.read_bytes() for path in sorted(Path(tau2.__file__).parent.rglob("*.py"))]
    decides = ("user", "user_model", "user_temperature", "score", "judge")
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
        tools.append({**DONE, "mutates": False})
    return tools


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
    return {"id": name, "instruction": instruction, "payload": {"state": digest}}


def _task(payload: Any) -> Any:
    try:
        return S.tasks[payload["id"]]
    except KeyError:
        raise InputRefused(f"there is no task '{payload.get('id')}' in {S.domain}") from None


def reset(task: Any, seed: Any) -> Any:
    """Begin a conversation: the rules, the agent's greeting and the user's first words, or the ticket."""
    S.task, S.env, S.errors, S.ended = _task(task), _environment(), 0, None
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
    calls = message.get("tool_calls") or []
    content = message.get("content") or None
    if calls and content and content.strip():
        # tau2 asks for one or the other; what was said beside a call is not heard by anybody.
        content = None
    if not calls and not (content or "").strip():
        return _end(TerminationReason.AGENT_ERROR)
    if S.solo and (not calls or any(c["name"] == LLMSoloAgent.STOP_FUNCTION_NAME for c in calls)):
        finished = bool(calls) or LLMSoloAgent.STOP_TOKEN in (content or "")
        said = AssistantMessage(role="assistant", content=LLMSoloAgent.STOP_TOKEN if finished else content)
        S.messages.append(said)
        answers = [_plain_tool(c["id"], c["name"], LLMSoloAgent.STOP_TOKEN, False) for c in calls]
        return _end(TerminationReason.AGENT_STOP if finished else TerminationReason.AGENT_ERROR, answers)
    if not calls:
        said = AssistantMessage(role="assistant", content=content)
        S.messages.append(said)
        if UserSimulator.is_stop(said):  # an agent may end by tau2's own word
            return _end(TerminationReason.AGENT_STOP)
        heard = _user_speaks(said)
        if S.ended is not None:
            return {"messages": heard, "done": True, "truncated": False}
        return {"messages": heard, "done": False, "truncated": False}
    made = [
        ToolCall(id=c["id"], name=c["name"], arguments=_arguments(c), requestor="assistant") for c in calls
    ]
    S.messages.append(AssistantMessage(role="assistant", content=None, tool_calls=made))
    answers = []
    for call in made:
        result = S.env.get_response(call)
        S.messages.append(result)
        S.errors += bool(result.error)
        answers.append(_plain_tool(call.id, call.name, result.content, bool(result.error)))
    if S.errors >= MAX_ERRORS:
        return _end(TerminationReason.TOO_MANY_ERRORS, answers)
    return {"messages": answers, "done": False, "truncated": False}


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
            if UserSimulator.is_stop(said):
                S.ended = TerminationReason.USER_STOP
            return [{"role": "user", "content": said.content}]
        results = []
        for call in said.tool_calls:
            results.append(S.env.get_response(call))
        S.messages.extend(results)
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
