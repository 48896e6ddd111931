"""tau2-bench runs with a file for each simulation: `results.json` and `simulations/*.json`, or one of them.

A simulation that lies alone, without the `results.json` of its run, tells neither its domain nor its task:
the target is then named after the folder, and what is expected is taken from what was checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trace_assets.formats.documents import first_object, read_document
from trace_assets.formats.problem import SIMULATIONS, UNUSABLE, Problem, batch_named, is_split
from trace_assets.formats.reading import Reading
from trace_assets.formats.tau2 import Tau2Importer, not_judged, read_simulation
from trace_assets.formats.tau2_file import Tau2File
from trace_assets.records import Task, Trajectory
from trace_assets.untrusted.allowance import OF_MACHINE, Allowance

_OWN = frozenset({"termination_reason", "reward_info"})


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
