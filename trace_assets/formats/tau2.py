"""tau2-bench simulation files: `{timestamp, info, tasks[], simulations[]}`, of any size.

`read` gives records one by one. `parts` gives tables, and takes the fast way for every simulation of the
usual form (`tau2_columns`); what is unusual or damaged goes through `read`'s way, one simulation at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from trace_assets.formats.batch_files import SIMULATIONS, batch_named, is_split
from trace_assets.formats.documents import first_object, read_document
from trace_assets.formats.fields import token_count
from trace_assets.formats.json_array import Array, Settled, Span, find_array, settle
from trace_assets.formats.openai_chat import not_json
from trace_assets.formats.problem import UNUSABLE, Kind, Problem, Reading, reason_of
from trace_assets.formats.tau2_file import Tau2File, read_checks, read_messages
from trace_assets.records import Message, Task, Trajectory
from trace_assets.untrusted.allowance import BOM, OF_MACHINE, Allowance, TooLarge
from trace_assets.untrusted.json_text import check_cost, longest, too_long, whole_pairs

_MARKS = (
    b'"simulations"',
    b'"agent_info"',
    b'"user_info"',
    b'"environment_info"',
    b'"num_trials"',
    b'"user_scenario"',
    b'"evaluation_criteria"',
)


class Tau2Importer:
    """Reads the simulation files that tau2-bench writes."""

    name = "tau2"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Tell whether the file begins like a tau2 simulation file."""
        begins = head.lstrip()[:1] == b"{" and sum(mark in head for mark in _MARKS) >= 2
        return begins and not is_split(path)

    def read(self, path: Path, allowance: Allowance = OF_MACHINE) -> Iterator[Task | Trajectory | Problem]:
        """Yield the tasks that were simulated, the trajectories, and what could not be read."""
        opened = open_tau2(path, allowance)
        if isinstance(opened, Problem):
            yield opened
            return
        file, array = opened
        known = set[str]()
        for item in settled_items(file, array.spans, allowance):
            if isinstance(item, Trajectory):
                task_id = item.task_id.removeprefix(f"{file.target}/")
                if task_id not in known:
                    known.add(task_id)
                    yield file.task(task_id)
            yield item


def open_tau2(path: Path, allowance: Allowance = OF_MACHINE) -> tuple[Tau2File, Array] | Problem:
    """Return what a file's simulations share and where they lie, or why it cannot be read.

    Raises:
        OSError: The file cannot be opened.
    """
    try:
        array = find_array(path, "simulations", allowance)
        if array is None:
            # Nothing to stream: a small file of another form, or one that breaks off before its array.
            raise _refusal(path, allowance)
        array, tail = _tail(path, array, allowance)
        head, tail = whole_pairs(array.head.removeprefix(BOM)), whole_pairs(tail)
        check_cost(head + tail, allowance.row)
        try:
            content = from_json(head + b"]" + tail)
        except ValueError:
            content = from_json(head + b"]}")
        return Tau2File.of(path, content), array
    except ValueError as error:
        kind: Kind = "too_large" if isinstance(error, TooLarge) else "unknown_format"
        return Problem(path=str(path), message=str(error), kind=kind)


def _refusal(path: Path, allowance: Allowance) -> ValueError:
    size, most = path.stat().st_size, longest(allowance.row)
    if size > most:
        return too_long(size, allowance.row)
    try:
        data = path.read_bytes().removeprefix(BOM)
        check_cost(data, allowance.row)
        Tau2File.of(path, from_json(data))
    except ValueError as error:
        if not str(error).startswith(("there is", "a tau2", "neither", "reading it")):
            reason = str(error).partition(" at ")[0]
            return ValueError(
                f"the file breaks off or is damaged before its simulations ({reason}); nothing can be read"
            )
        return error
    return ValueError("there is no list 'simulations' in its outermost object")


def _tail(path: Path, array: Array, allowance: Allowance) -> tuple[Array, bytes]:
    """Return the array with its true end, and what follows its closing bracket."""
    position = len(array.head)
    if array.spans:
        last = array.spans[-1]
        ends = (
            [settled.span.end for settled in settle(path, [last], allowance) if not settled.reason]
            if array.whole
            else []
        )
        if not ends:
            return array, b"}"
        position = ends[-1]
        array = replace(array, spans=[*array.spans[:-1], last._replace(end=position)])
    with path.open("rb") as stream:
        stream.seek(position)
        tail = stream.read(longest(allowance.row))
        return array, b"}" if stream.read(1) else tail.lstrip().removeprefix(b"]")


def settled_items(
    file: Tau2File, spans: Sequence[Span], allowance: Allowance = OF_MACHINE
) -> Iterator[Trajectory | Problem]:
    """Yield the trajectories of some neighbouring pieces of a file, and what could not be read."""
    for settled in settle(file.path, spans, allowance):
        if settled.reason:
            yield _damaged(file, settled)
            continue
        try:
            trajectory, notice = read_simulation(file, settled.value)
        except UNUSABLE as error:
            yield _left_out(file, settled, reason_of(error))
            continue
        if notice:
            yield not_judged(file.path, settled.span.number, notice)
        yield trajectory


def not_judged(path: Path, number: int, notice: str) -> Problem:
    """Tell of a trajectory that is kept without a reward."""
    position = f"simulations[{number}]"
    return Problem(path=str(path), position=position, message=notice, severity="notice", kind="not_judged")


def _left_out(file: Tau2File, settled: Settled, why: str, kind: Kind = "left_out") -> Problem:
    position = f"simulations[{settled.span.number}]"
    message = f"{why}; this simulation is left out"
    return Problem(path=str(file.path), position=position, message=message, kind=kind)


def _damaged(file: Tau2File, settled: Settled) -> Problem:
    if not settled.broken_off:
        return _left_out(
            file, settled, not_json(settled.reason), "too_large" if settled.large else "left_out"
        )
    before = settled.span.number
    message = f"the file breaks off or is damaged here ({settled.reason}); "
    message += f"the {before} simulations before it are read" if before else "nothing before it can be read"
    position = f"simulations[{before}] at byte {settled.span.start}"
    return Problem(path=str(file.path), position=position, message=message, kind="broken_off")


def read_simulation(file: Tau2File, simulation: Any) -> tuple[Trajectory, str]:
    """Return a parsed simulation as a trajectory, and the sentence on a missing reward.

    Raises:
        ValueError: It has no usable messages; the message says why.
    """
    if not isinstance(simulation, dict):
        raise ValueError(f"a simulation is a JSON object, not a {type(simulation).__name__}")
    for key in ("id", "task_id"):
        if simulation.get(key) in (None, ""):
            raise ValueError(f"there is no '{key}'")
    raw = simulation.get("messages")
    if not isinstance(raw, list):
        raise ValueError("there is no list 'messages'")
    messages = list(read_messages(raw))
    ticket = file.ticket(str(simulation["task_id"]))
    if ticket:
        messages.insert(0, Message(role="user", content=ticket))
    spent = [usage for message in raw if (usage := _usage(message))]
    tokens = (_sum(spent, "prompt_tokens"), _sum(spent, "completion_tokens")) if spent else (None, None)
    last = (messages[-1].content or "") if messages else ""
    head, notice = file.head(simulation, len(messages), last, tokens)
    checks = tuple(read_checks(simulation.get("reward_info")))
    return Trajectory(**head, messages=tuple(messages), checks=checks), notice


def _usage(message: Any) -> dict[str, Any] | None:
    usage = message.get("usage") if isinstance(message, dict) and message.get("role") == "assistant" else None
    noted = isinstance(usage, dict) and any(usage.get(key) is not None for key in _TOKENS)
    return usage if noted else None


_TOKENS = ("prompt_tokens", "completion_tokens")


def _sum(spent: list[dict[str, Any]], key: str) -> int:
    return sum(token_count(usage.get(key)) or 0 for usage in spent)


_OWN = frozenset({"termination_reason", "reward_info"})


# A run with a file for each simulation: `results.json` and `simulations/*.json`, or one of them. One that
# lies alone tells neither its domain nor its task: the target is then named after the folder, and what is
# expected is taken from what was checked.


class Tau2FolderImporter:
    """Reads the runs that tau2-bench writes as folders."""

    name = "tau2_folder"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Tell whether it is the head of such a run, or one of its simulations."""
        if head.lstrip()[:1] != b"{":
            return False
        row = first_object(head)
        if {"id", "task_id"} <= set(row) and ({"messages", "ticks"} & set(row) or _OWN & set(row)):
            return bool(_OWN & set(row))
        return is_split(path) and bool({"info", "tasks", "timestamp"} & set(row))

    def read(self, path: Path, allowance: Allowance = OF_MACHINE) -> Iterator[Task | Trajectory | Problem]:
        """Yield the tasks that were simulated, the trajectories, and what could not be read."""
        content = read_document(path, allowance)
        if isinstance(content, Problem):
            yield content
        elif isinstance(content.get("simulations"), list) and content["simulations"]:
            yield from Tau2Importer().read(path, allowance)
        elif is_split(path):
            yield from _run(path, content, sorted((path.parent / SIMULATIONS).glob("*.json")), allowance)
        elif (head := path.parent.parent / "results.json").is_file() and path.parent.name == SIMULATIONS:
            about = read_document(head, allowance)
            yield from _run(head, {} if isinstance(about, Problem) else about, [path], allowance)
        else:
            yield from _run(path, {}, [path], allowance)


def _run(
    head: Path, content: Mapping[str, Any], paths: Sequence[Path], allowance: Allowance
) -> Iterator[Task | Trajectory | Problem]:
    known = set[str]()
    try:
        shared: Tau2File | None = Tau2File.of(head, {**content, "simulations": []})
    except ValueError as error:
        if content:
            yield Problem(path=str(head), message=str(error), kind="incomplete", severity="notice")
        shared = None
    for path in paths:
        simulation = read_document(path, allowance)
        if isinstance(simulation, Problem):
            yield simulation
            continue
        try:
            file = _of(shared or _alone(head, simulation), path, simulation)
            trajectory, notice = read_simulation(file, simulation)
            task = file.task(str(simulation["task_id"]))
        except UNUSABLE as error:
            yield Reading(path).left_out(error, "", "this simulation")
            continue
        if task.task_id not in known:
            known.add(task.task_id)
            yield task
        if notice:
            yield not_judged(path, 0, notice)
        yield trajectory
    yield from _missing(head, content, paths)


def _of(shared: Tau2File, path: Path, simulation: Mapping[str, Any]) -> Tau2File:
    """Return what is known of one simulation: what its run shares, and what it tells itself."""
    if simulation.get("messages") is None and simulation.get("ticks"):
        raise ValueError("it was spoken, not written: it holds audio in ticks and no 'messages'")
    own = str(simulation.get("policy") or "")
    file = replace(shared, uri=str(path.absolute()), domain_policy=own or shared.domain_policy)
    name = str(simulation.get("task_id"))
    if name not in file.tasks and (expected := _checked(simulation)):
        file = replace(file, tasks={**file.tasks, name: expected})
    return file


def _alone(path: Path, simulation: Mapping[str, Any]) -> Tau2File:
    """Return what is known of a simulation without its run's `results.json`."""
    folder = path.absolute().parent
    name = batch_named(folder.parent.name if folder.name == SIMULATIONS else folder.name)
    said = [one for one in simulation.get("messages") or () if isinstance(one, dict)]
    raw = [
        one["raw_data"] for one in said if one.get("role") == "assistant" and _is_named(one.get("raw_data"))
    ]
    models = Counter(str(one["model"]) for one in raw)
    return Tau2File(
        path=path,
        target=f"tau2:{name}",
        batch=name,
        policy=models.most_common(1)[0][0] if models else name,
        user_policy="unknown" if any(one.get("role") == "user" for one in said) else None,
        agent=None,
        model_options={},
        commit=None,
        solo=False,
        uri=str(path.absolute()),
        domain_policy="",
        tasks={},
    )


def _is_named(raw: Any) -> bool:
    return isinstance(raw, dict) and bool(raw.get("model"))


def _checked(simulation: Mapping[str, Any]) -> dict[str, Any]:
    """Return a task as far as the checks of its simulation tell it; empty when they tell nothing."""
    info = simulation.get("reward_info")
    checks = info.get("action_checks") if isinstance(info, dict) else None
    if not isinstance(info, dict) or not isinstance(checks, list):
        return {}
    told = [one.get("info") for one in info.get("communicate_checks") or () if isinstance(one, dict)]
    actions = [one.get("action") for one in checks if isinstance(one, dict)]
    return {
        "id": simulation.get("task_id"),
        "evaluation_criteria": {"actions": actions, "communicate_info": [one for one in told if one]},
    }


def _missing(head: Path, content: Mapping[str, Any], paths: Sequence[Path]) -> Iterator[Problem]:
    """Tell when the run's own list names simulations that are not there."""
    index = content.get("simulation_index")
    if not isinstance(index, list) or not is_split(head) or len(paths) == 1 < len(index):
        return
    there = {path.stem for path in paths}
    gone = [one["id"] for one in index if isinstance(one, dict) and str(one.get("id")) not in there]
    if gone:
        message = f"{len(gone)} of its {len(index)} simulations are not there, such as {gone[0]}"
        yield Problem(path=str(head), message=message, kind="incomplete", severity="notice")
