"""The target module of ToolSandbox: runs under `trace_assets.targets.process.serve` where it is installed.

Options: `user` (`model`, `scripted` or `none`), `user_model`, `user_base_url`, `user_temperature`,
`user_seconds` for the simulated user, `network` (whether the scenarios whose tools ask web services are
listed), `clock` (`fixed`, `today`, or an ISO time), `fresh_process` (whether every episode gets a process of
its own), `commit` for the record.

The conversation follows ToolSandbox's own `Scenario.play` message by message, and its own measures judge.
Where an agent's message would have ended that program with an exception (a tool that does not exist, an id
that is no Python name, more parallel calls than can be tried in every order), the agent is told so instead.
"""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

from toolsandbox_world import CLOCK, build, families, needs_network, seed_ids, splits_of

# isort: split
import tool_sandbox
from openai.types.chat.chat_completion_message_tool_call import ChatCompletionMessageToolCall, Function
from tool_sandbox.common.execution_context import DatabaseNamespace, RoleType, set_current_context
from tool_sandbox.common.execution_context import get_current_context as context
from tool_sandbox.common.message_conversion import Message, openai_tool_call_to_python_code
from tool_sandbox.common.tool_conversion import convert_to_openai_tool
from tool_sandbox.roles.base_role import BaseRole
from tool_sandbox.roles.execution_environment import ExecutionEnvironment
from tool_sandbox.scenarios.user_simulator_few_shot_examples import USER_INSTRUCTION
from toolsandbox_matching import Matcher
from toolsandbox_oracle import solution
from toolsandbox_users import user_of

OPERATIONS = ("official",)

MAX_PARALLEL = 4
"""Calls of one message that are run: ToolSandbox plays them in every order, and five have 120 orders."""
WRITES = ("add_", "modify_", "remove_", "send_", "set_")
PERFECT = 1.0 - 1e-6
USERS = ("model", "scripted", "none")


class InputRefused(Exception):
    """What was asked for does not exist."""

    fault = "input"


class DayOver(Exception):
    """The day that the scenarios were built for is over."""

    fault = "infrastructure"


class AgentRole(BaseRole):  # type: ignore[misc]
    """Whose messages come from outside."""

    role_type: Any = RoleType.AGENT


class _State:
    """The target, and the one episode that this process serves."""

    options: dict[str, Any] = {}
    scenarios: dict[str, Any] = {}
    family: dict[str, str] = {}
    day = ""
    scenario: Any = None
    environment: Any = None
    user: Any = None
    limit = 0
    calls = 0


S = _State


def describe(options: Any) -> Any:
    """Name the target and its tools."""
    S.options = {"user": "model", "network": False, "clock": "fixed", "fresh_process": False, **options}
    if S.options["user"] not in USERS:
        raise InputRefused(f"there is no user '{S.options['user']}'; there are {', '.join(USERS)}")
    if S.options["user"] == "model" and not (S.options.get("user_model") and S.options.get("user_base_url")):
        raise InputRefused(
            "a user by language model needs user_model and user_base_url; or set user to 'scripted'"
        )
    try:
        begins = CLOCK.set(str(S.options["clock"]))
    except ValueError as error:
        raise InputRefused(
            f"clock is 'fixed', 'today' or a time such as 2025-03-12T10:00:00: {error}"
        ) from error
    S.day = CLOCK.day() if S.options["clock"] == "today" else ""
    S.scenarios = build()
    S.family = families({name: _request(one) for name, one in S.scenarios.items()})
    decides = {name: S.options.get(name) for name in ("user", "user_model", "user_temperature", "network")}
    code = _hash([*Path(__file__).parent.glob("*.py")])
    data = _hash([*Path(next(iter(tool_sandbox.__path__))).rglob("*.py")])
    text = json.dumps([begins, decides, code, data], sort_keys=True)
    provenance = {
        "commit": str(S.options.get("commit", "")),
        "data": data,
        "clock": begins,
        "user": S.options["user"],
        "user_model": str(S.options.get("user_model", "")) if S.options["user"] == "model" else "",
    }
    return {
        "name": "toolsandbox",
        "version": hashlib.sha256(text.encode()).hexdigest()[:16],
        "policy": "",
        "tools": _all_tools(),
        "provenance": {name: value for name, value in provenance.items() if value},
        "fresh_process": bool(S.options["fresh_process"]),
        "replayable": S.options["user"] != "model" and not S.options["network"],
    }


def _hash(paths: Any) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _all_tools() -> Any:
    """Return every tool that a listed scenario hands out, by name."""
    found: dict[str, Any] = {}
    for scenario in _listed().values():
        set_current_context(scenario.starting_context)
        found.update(AgentRole.get_available_tools())
    return [_tool(name, found[name]) for name in sorted(found)]


def _tool(name: Any, tool: Any) -> Any:
    return {**convert_to_openai_tool(tool, name), "mutates": name.startswith(WRITES)}


def _listed() -> Any:
    with_network = bool(S.options["network"])
    return {name: one for name, one in S.scenarios.items() if with_network or not needs_network(one)}


def _opening(scenario: Any, sender: Any, recipient: Any) -> Any:
    rows = scenario.starting_context.get_database(DatabaseNamespace.SANDBOX, get_all_history_snapshots=True)
    return [
        row["content"]
        for row in rows.to_dicts()
        if (row["sender"], row["recipient"]) == (sender, recipient) and row["visible_to"] != [RoleType.USER]
    ]


def _request(scenario: Any) -> str:
    """Return what the user is told to want; examples for a language model in its role are left out."""
    told: str = _opening(scenario, RoleType.SYSTEM, RoleType.USER)[-1]
    return told.removeprefix(USER_INSTRUCTION).strip()


def tasks() -> Any:
    """Return the scenarios; all of a family stand in one split."""
    splits: dict[str, Any] = {"discovery": [], "validation": [], "test": []}
    split_of = splits_of(S.family)
    for name, scenario in _listed().items():
        first = _opening(scenario, RoleType.USER, RoleType.AGENT)[-1]
        network = needs_network(scenario)
        family = S.family[name]
        splits[split_of[family]].append(
            {
                "id": name,
                "instruction": f"{first}\n\n{_request(scenario)}",
                "tags": [
                    *(str(tag).lower() for tag in scenario.categories),
                    "network" if network else "offline",
                ],
                "payload": {"family": family, "network": network},
            }
        )
    return splits


def _scenario(task: Any) -> Any:
    try:
        return S.scenarios[task["id"]]
    except KeyError:
        raise InputRefused(f"there is no scenario '{task.get('id')}' in ToolSandbox") from None


def reset(task: Any, seed: Any) -> Any:
    """Begin a scenario: its system message and the user's first words; its own tools."""
    scenario = _scenario(task)
    if S.day and S.day != CLOCK.day():
        raise DayOver(f"the scenarios were built for {S.day}, which is over; run the same command again")
    user = user_of(S.options, _request(scenario), int(seed) % 2**31)
    return begin(task, scenario, seed, user)


def begin(task: Any, scenario: Any, seed: Any, user: Any) -> Any:
    """Begin a scenario with a user."""
    CLOCK.rewind()
    seed_ids(f"{task['id']}/{seed}")
    S.scenario, S.user, S.calls = scenario, user, 0
    S.environment = ExecutionEnvironment()
    set_current_context(copy.deepcopy(scenario.starting_context))
    last = context().max_sandbox_message_index
    S.limit = scenario.max_messages + last
    for index, message in enumerate(BaseRole.get_messages()):
        if (message.sender, message.recipient) == (RoleType.SYSTEM, RoleType.EXECUTION_ENVIRONMENT):
            S.environment.respond(ending_index=index)
    plain = [
        {"role": "system", "content": text} for text in _opening(scenario, RoleType.SYSTEM, RoleType.AGENT)
    ]
    plain += [{"role": "user", "content": text} for text in _opening(scenario, RoleType.USER, RoleType.AGENT)]
    tools = [_tool(name, tool) for name, tool in AgentRole.get_available_tools().items()]
    return {"messages": plain, "tools": tools}


def step(message: Any) -> Any:
    """Play one message of the agent, and what the sandbox and the user make of it."""
    calls = message.get("tool_calls") or []
    # As in ToolSandbox's own agents, what is said beside calls is not heard by anybody.
    answers = _act(calls) if calls else _say(message.get("content") or "")
    CLOCK.tick()
    done = not _active()
    return {"messages": answers, "done": done, "truncated": not done and _full()}


def _active() -> bool:
    rows = context().get_database(DatabaseNamespace.SANDBOX)
    return bool(rows["conversation_active"][-1])


def _full() -> bool:
    return bool(context().max_sandbox_message_index >= S.limit)


def _act(calls: Any) -> Any:
    """Run the calls that can be run; answer every one."""
    known = AgentRole.get_available_tools()
    answers: dict[int, Any] = {}
    made: dict[str, int] = {}
    messages = []
    for index, call in enumerate(calls):
        if call["name"] not in known:
            answers[index] = (f"KeyError: there is no tool '{call['name']}'", True)
            continue
        if len(made) == MAX_PARALLEL:
            answers[index] = (f"RuntimeError: at most {MAX_PARALLEL} calls can be made at once", True)
            continue
        S.calls += 1
        own = f"call_{S.calls}"  # becomes the name of a Python variable
        made[own] = index
        arguments = call.get("arguments")
        text = json.dumps(arguments if isinstance(arguments, dict) else {})
        asked = ChatCompletionMessageToolCall(
            id=own, type="function", function=Function(name=call["name"], arguments=text)
        )
        messages.append(
            Message(
                sender=RoleType.AGENT,
                recipient=RoleType.EXECUTION_ENVIRONMENT,
                content=openai_tool_call_to_python_code(asked, set(known), None),
                openai_tool_call_id=own,
                openai_function_name=call["name"],
            )
        )
    if messages:
        BaseRole.add_messages(messages)
        if _full():
            answers |= {index: ("the conversation is over: it is too long", True) for index in made.values()}
        else:
            S.environment.respond()
            # Where one order of parallel calls failed, they are answered in that order.
            for answer in BaseRole.get_messages()[-len(messages) :]:
                failed = answer.tool_call_exception is not None
                answers[made[answer.openai_tool_call_id]] = (answer.content, failed)
    return [
        {
            "role": "tool",
            "content": answers[index][0],
            "tool_call_id": call["id"],
            "tool_name": call["name"],
            "is_error": answers[index][1],
        }
        for index, call in enumerate(calls)
    ]


def _say(text: Any) -> Any:
    """Let the user answer, or end the conversation; return its words as the agent hears them."""
    said = text.encode("utf-8", "replace").decode()
    BaseRole.add_messages([Message(sender=RoleType.AGENT, recipient=RoleType.USER, content=said)])
    before = context().max_sandbox_message_index
    roles = {RoleType.USER: S.user, RoleType.EXECUTION_ENVIRONMENT: S.environment}
    while _active() and not _full() and (last := BaseRole.get_messages()[-1]).recipient in roles:
        roles[last.recipient].respond()
    return [
        {"role": "user", "content": one.content}
        for one in BaseRole.get_messages()[before + 1 :]
        if (one.sender, one.recipient) == (RoleType.USER, RoleType.AGENT)
    ]


def verdict() -> Any:
    """Judge the conversation as it stands by ToolSandbox's own measures."""
    evaluation, checks = S.scenario.evaluation, []
    goals, mines = evaluation.milestone_matcher, evaluation.minefield_matcher
    reached = Matcher(goals, context()).scores()
    entered = Matcher(mines, context()).scores()
    for index, score in reached.items():
        checks.append(_check("milestone", index, goals.milestones[index], score >= PERFECT, score))
    for index, score in entered.items():
        checks.append(_check("minefield", index, mines.milestones[index], score == 0.0, float(score == 0.0)))
    # As there: the mean over milestones, one where there is none; any likeness to a minefield takes it all.
    mean = sum(reached.values()) / len(reached) if reached else 1.0
    reward = 0.0 if any(entered.values()) else min(1.0, max(0.0, mean))
    return {"reward": reward, "success": all(check["passed"] for check in checks), "checks": checks}


def official() -> Any:
    """Return the similarity as ToolSandbox's own evaluation gives it: it may search for minutes."""
    found = S.scenario.evaluation.evaluate(
        execution_context=context(), max_turn_count=S.scenario.max_messages
    )
    return float(found.similarity)


def _check(kind: str, index: int, node: Any, passed: bool, score: float) -> Any:
    score = min(1.0, max(0.0, score))
    where = ", ".join(sorted({str(one.database_namespace).lower() for one in node.snapshot_constraints}))
    detail = "" if passed else f"{where}: {'entered' if kind == 'minefield' else 'not reached'}"
    return {"name": f"{kind}_{index}", "kind": kind, "passed": passed, "score": score, "detail": detail}


def oracle(task: Any) -> Any:
    """Return what an agent says and calls that reaches every milestone: for tests, with the scripted user."""
    scenario = _scenario(task)
    kept = context(), S.scenario, S.user, S.calls, S.environment, S.limit
    begin(task, scenario, 0, user_of({"user": "scripted"}, _request(scenario), 0))
    try:
        return solution(scenario, step)
    finally:
        set_current_context(kept[0])
        S.scenario, S.user, S.calls, S.environment, S.limit = kept[1:]
