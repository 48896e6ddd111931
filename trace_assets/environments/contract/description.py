"""What a person says of a target that is not live: its tools and its policy, kept in the home."""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trace_assets.diagnosis.detectors.mutation import by_verb, describes_a_thing
from trace_assets.diagnosis.detectors.policy_text import shown_policy
from trace_assets.diagnosis.detectors.verbs import READING, deed
from trace_assets.environments.contract.answers import Side, answered_calls, paired
from trace_assets.environments.contract.json_schema import infer_schema
from trace_assets.environments.contract.preconditions import Guard, guards_of
from trace_assets.environments.contract.protocol import (
    LengthStatistics,
    MessageProtocol,
    Reference,
    lengths_of,
    protocol_of,
    reference_of,
)
from trace_assets.environments.contract.requests import Asking, Closing, askings_of, closings_of
from trace_assets.environments.contract.shapes import ResultShape, result_shapes
from trace_assets.environments.contract.wording import Phrasing, phrasing_of
from trace_assets.errors import InputError
from trace_assets.records import Record, ToolSpec, Trajectory
from trace_assets.store.files import make_folder, write_text
from trace_assets.store.manifest import manifest_of
from trace_assets.targets.protocol import Target

# Which tools there are: as they were given, or as calls show them.


_FORMS = (
    "a list of OpenAI functions, of MCP tools or of objects with 'name' and 'parameters', or an object that "
    "holds such lists as 'agent' and 'user', or one as 'tools'"
)


class GivenTools(Record):
    """Tools as a person or a file names them."""

    agent: tuple[ToolSpec, ...] = ()
    user: tuple[ToolSpec, ...] = ()
    """Tools of the simulated user."""


def read_tools(path: Path) -> GivenTools:
    """Read a file of tool schemas.

    Raises:
        InputError: It cannot be read or holds no tools.
    """
    try:
        return tools_in(json.loads(path.read_text(encoding="utf-8")), str(path))
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0] or type(error).__name__
        raise InputError(f"the tools in {path} cannot be read ({reason}); name a file of JSON.") from error


def tools_in(value: Any, where: str) -> GivenTools:
    """Return the tools of a JSON value.

    Args:
        value: A list of OpenAI functions, of MCP tools or of plain objects; or an object that holds such
            lists as `agent` and `user`, or one as `tools`.
        where: What to call it in messages.

    Raises:
        InputError: It is none of these, a tool is malformed, or two have one name.
    """
    if isinstance(value, Mapping):
        if "tools" in value:
            return tools_in(value["tools"], where)
        lists = {side: value[side] for side in ("agent", "user") if value.get(side) is not None}
    else:
        lists = {"agent": value}
    if not lists or not all(isinstance(one, list) for one in lists.values()):
        raise InputError(f"{where} holds no tools: expected {_FORMS}.")
    given = GivenTools(**{side: tuple(_tools(one, where)) for side, one in lists.items()})
    if not given.agent:
        raise InputError(f"{where} names no tool of the agent; expected {_FORMS}.")
    return given


def _tools(listed: Sequence[Any], where: str) -> list[ToolSpec]:
    tools = [_tool(one, f"{where}, tool {number}") for number, one in enumerate(listed)]
    names = [tool.name for tool in tools]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise InputError(f"{where} names the tool '{doubled[0]}' more than once; leave one of them out.")
    return tools


def _tool(one: Any, where: str) -> ToolSpec:
    function = one.get("function", one) if isinstance(one, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str) or not function["name"]:
        raise InputError(f"{where} has no name; a tool is an object with 'name' and 'parameters'.")
    parameters = function.get("parameters", function.get("inputSchema", {}))
    if not isinstance(parameters, Mapping) or parameters.get("type", "object") != "object":
        raise InputError(
            f"{where} ('{function['name']}') has parameters that are no JSON schema of an object."
        )
    try:
        return ToolSpec(
            name=function["name"],
            description=function.get("description") or "",
            parameters=dict(parameters),
            mutates=function.get("mutates"),
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{where}: '{first['loc'][0]}' is not usable ({first['msg']}).") from error


def tools_of(trajectories: Iterable[Trajectory]) -> GivenTools:
    """Return the tool schemas that came with the trajectories, where all that name any name the same."""
    listed = {
        str(one.metadata["tools"]): one.metadata["tools"] for one in trajectories if one.metadata.get("tools")
    }
    if len(listed) != 1:
        return GivenTools()
    try:
        return tools_in(next(iter(listed.values())), "the list of tools that came with the trajectories")
    except InputError:
        return GivenTools()


def inferred_tools(trajectories: Sequence[Trajectory], by: Side = "assistant") -> list[ToolSpec]:
    """Return the tools that one side called, with parameters as the calls have them, by name.

    A name whose every call was answered by an error is left out: agents invent tools.
    """
    arguments: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for trajectory in trajectories:
        answered = {call.id: is_error for call, _, is_error in answered_calls(trajectory, by)}
        for call, _ in paired(trajectory, by):
            if not answered.get(call.id, False):
                arguments[call.name].append(call.arguments)
    return [
        ToolSpec(name=name, parameters=_parameters(infer_schema(seen)))
        for name, seen in sorted(arguments.items())
    ]


def _parameters(schema: dict[str, Any]) -> dict[str, Any]:
    """Drop what is true of the arguments that were seen, but no rule: values, sizes, ranges."""
    kept: dict[str, Any] = {key: schema[key] for key in ["type", "format"] if key in schema}
    if "items" in schema:
        kept["items"] = _parameters(schema["items"])
    if "additionalProperties" in schema:
        kept["additionalProperties"] = _parameters(schema["additionalProperties"])
    if "properties" in schema:
        kept["properties"] = {name: _parameters(one) for name, one in sorted(schema["properties"].items())}
        kept["required"] = sorted(schema["required"])
    return kept


def mutation_marked(tools: Sequence[ToolSpec]) -> list[ToolSpec]:
    """Return the tools with `mutates` filled in by name where the target does not say.

    A name without a verb that is known leaves it to the description: one that names what is answered is of a
    tool that looks. Otherwise it may change something.

    >>> [t.mutates for t in mutation_marked([ToolSpec(name="get_loan"), ToolSpec(name="renew_loan")])]
    [False, True]
    >>> days = ToolSpec(name="days_since", description="Days from a date to today.")
    >>> [t.mutates for t in mutation_marked([days, ToolSpec(name="days_since")])]
    [False, True]
    """
    return [
        tool if tool.mutates is not None else tool.model_copy(update={"mutates": not _looks(tool)})
        for tool in tools
    ]


def _looks(tool: ToolSpec) -> bool:
    if set(deed(tool.name).split()[:1]) & READING:
        return True
    return by_verb(tool.name) is None and describes_a_thing(tool.description)


class TargetDescription(Record):
    """Tools and policy of one target."""

    target: str
    tools: GivenTools = GivenTools()
    policy: str = ""
    tools_from: str = ""
    """Name of the file that the tools came from."""
    policy_from: str = ""


def description_file(folder: Path, target: str) -> Path:
    """Return where a target's description lies; names that differ in a sign only do not meet."""
    mark = hashlib.sha256(target.encode()).hexdigest()[:8]
    return folder / f"{re.sub(r'[^A-Za-z0-9]+', '-', target).strip('-')[:60]}-{mark}.json"


def read_description(folder: Path, target: str) -> TargetDescription:
    """Return what is known of a target, an empty description when nothing is.

    Raises:
        InputError: The file was damaged.
    """
    file, manifest = description_file(folder, target), manifest_of(folder.parent)
    if said := manifest.problem(manifest.name(file)):
        raise _unreadable(target, file, said)
    try:
        return TargetDescription.model_validate_json(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return TargetDescription(target=target)
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        raise _unreadable(target, file, f"cannot be read ({type(error).__name__})") from error


def _unreadable(target: str, file: Path, said: str) -> InputError:
    return InputError(
        f"what is known of target '{target}': {file} {said}; go on without it by `trace doctor "
        "--accept-losses`, and give its tools and policy again by `trace contract`, or its files by `trace "
        "ingest`."
    )


def write_description(folder: Path, description: TargetDescription) -> bool:
    """Keep a description; tell whether it is news."""
    file, text = description_file(folder, description.target), description.model_dump_json(indent=1)
    if file.is_file() and file.read_text(encoding="utf-8", errors="replace") == text:
        return False
    make_folder(folder)
    manifest = manifest_of(folder.parent)
    write_text(file, text, placing=lambda partial: manifest.placing(manifest.name(file), partial))
    return True


# What a generated environment is held to: the target as its trajectories show it, machine-readable.


class TargetContract(Record):
    """The public face of a target."""

    target: str
    tools: tuple[ToolSpec, ...]
    policy: str
    results: tuple[ResultShape, ...]
    protocol: MessageProtocol
    lengths: LengthStatistics
    phrasing: Phrasing
    guards: tuple[Guard, ...]
    closings: tuple[Closing, ...]
    n_trajectories: int
    inferred: tuple[str, ...] = ()
    """Tools whose schema was inferred from calls, because none was given."""
    user_tools: tuple[ToolSpec, ...] = ()
    """Tools of the simulated user, which the agent cannot call."""
    user_results: tuple[ResultShape, ...] = ()
    """What those answer."""
    askings: tuple[Asking, ...] = ()
    """How users word what successful agents then did, in conversations of any length."""
    reference: Reference = Reference()
    """Real material that environments are compared with; no writer needs it."""

    def fingerprint(self) -> str:
        """Return a hash of the whole contract."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def tool(self, name: str) -> ToolSpec:
        """Return a tool by name.

        Raises:
            InputError: The target has no such tool.
        """
        for tool in self.tools:
            if tool.name == name:
                return tool
        known = ", ".join(tool.name for tool in self.tools)
        raise InputError(f"target '{self.target}' has no tool '{name}'; it has {known}.")

    def guard(self, tool: str) -> Guard | None:
        """Return how a writing tool is used by agents that succeed, None when not known."""
        return next((guard for guard in self.guards if guard.tool == tool), None)

    def result(self, tool: str) -> ResultShape | None:
        """Return the shape of a tool's results, None when no call of it was seen."""
        return next((shape for shape in self.results if shape.tool == tool), None)

    def closing(self, tool: str) -> Closing | None:
        """Return how conversations end whose last call was this tool, None when not known."""
        return next((closing for closing in self.closings if closing.tool == tool), None)


def extract_contract(target: Target, trajectories: Sequence[Trajectory]) -> TargetContract:
    """Read a target's contract off the target and trajectories of its discovery tasks.

    Args:
        target: Gives the tools and the policy text.
        trajectories: Rollouts on the target, judged where possible; those of other targets or of other
            splits than `discovery` are refused, so that nothing held out can leak into training.

    Returns:
        The contract; the same trajectories in any order give the same one.

    Raises:
        InputError: There are no trajectories, or some are not of the target's discovery split.
    """
    return contract_of(target.name, target.tools, target.policy, trajectories)


def contract_of(
    name: str,
    tools: Sequence[ToolSpec],
    policy: str,
    trajectories: Sequence[Trajectory],
    *,
    user_tools: Sequence[ToolSpec] = (),
) -> TargetContract:
    """Read a contract off tools, policy text and trajectories: for targets that are not live.

    Args:
        name: The target's name, as in `Trajectory.target`.
        tools: The agent's tools; what is called besides and answers is added, inferred from its calls. Empty:
            all of them are inferred.
        policy: The rules the agent is given; empty takes the system message, where all trajectories have one
            and the same.
        trajectories: As for `extract_contract`.
        user_tools: Tools of the simulated user. Where no user calls one but the agent does, the agent works
            alone and they are its tools too.

    Raises:
        InputError: As `extract_contract`.
    """
    read = _usable(name, trajectories)
    protocol = protocol_of(read)
    own, users = list(tools), list(user_tools)
    called = inferred_tools(read)
    if not protocol.user_calls and {t.name for t in called} & {t.name for t in users} - {t.name for t in own}:
        known = {tool.name for tool in own}
        own, users = own + [tool for tool in users if tool.name not in known], []
    added = [tool for tool in called if tool.name not in {one.name for one in own}]
    guessed = [tool for tool in inferred_tools(read, "user") if tool.name not in {one.name for one in users}]
    own, users = mutation_marked([*own, *added]), mutation_marked([*users, *guessed])
    phrasing = phrasing_of(own, read)
    return TargetContract(
        target=name,
        tools=tuple(own),
        policy=policy or shown_policy(read),
        results=tuple(result_shapes(own, read)),
        protocol=protocol,
        lengths=lengths_of(read),
        phrasing=phrasing,
        guards=tuple(guards_of(own, read, phrasing)),
        closings=tuple(closings_of(own, read, phrasing)),
        n_trajectories=len(read),
        inferred=tuple(tool.name for tool in [*added, *guessed]),
        user_tools=tuple(users),
        user_results=tuple(result_shapes(users, read, "user")),
        askings=tuple(askings_of(own, read)),
        reference=reference_of(read),
    )


def _usable(name: str, trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Return the trajectories to read from in an order of their own; refuse what is held out or foreign."""
    foreign = sorted({t.trajectory_id for t in trajectories if t.target != name or t.split != "discovery"})
    if foreign:
        raise InputError(
            f"a contract of '{name}' is read from its discovery trajectories only, but {len(foreign)} of "
            f"{len(trajectories)} are not, such as '{foreign[0]}'; leave them out."
        )
    read = sorted((t for t in trajectories if t.fault in (None, "agent") and t.messages), key=_order)
    if not read:
        raise InputError(
            f"there is no usable discovery trajectory of '{name}' to read its contract from; roll the base "
            f"policy out on the discovery tasks, or ingest trajectories of '{name}', first."
        )
    return read


def _order(trajectory: Trajectory) -> tuple[str, int, str]:
    return trajectory.task_id, trajectory.trial, trajectory.trajectory_id
