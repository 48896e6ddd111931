"""What was done to objects after their records were read, in conversations of any wording."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from trace_assets.records import ToolCall, ToolSpec, Trajectory
from trace_assets.synthesis.contract.answers import answered_calls, masked, parsed


@dataclass
class Acts:
    """How one writing tool was used on records that one reading tool gave.

    Attributes:
        read: The reading tool.
        argument: The writing tool's argument that names the object.
        read_argument: The reading tool's.
        wrote: Records that were then changed, in successful trajectories.
        refused: Records whose change the target refused, with the error as a template, in any trajectory.
        read_first: For each change in a successful trajectory: whether the object had been read before.
        after: For each successful trajectory with a refusal: the calls of other tools that followed it.
        paths: Argument to the places in the record at which its value stood; `*` counts the calls.
    """

    read: str
    argument: str
    read_argument: str
    wrote: list[dict[str, Any]] = field(default_factory=list)
    refused: list[tuple[dict[str, Any], str]] = field(default_factory=list)
    read_first: list[bool] = field(default_factory=list)
    after: list[list[ToolCall]] = field(default_factory=list)
    paths: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))


def acts_of(tool: str, read: str, link: tuple[str, str], trajectories: Sequence[Trajectory]) -> Acts:
    """Follow the objects that a writing and a reading tool both name.

    Args:
        tool: Changes objects.
        read: Reads them.
        link: The arguments of the two that name the object, as `links_of` finds them.
        trajectories: Of one target.
    """
    acts = Acts(read, *link)
    for trajectory in trajectories:
        _follow(acts, tool, trajectory, trajectory.success is True)
    return acts


def _follow(acts: Acts, tool: str, trajectory: Trajectory, good: bool) -> None:
    records: dict[str, dict[str, Any]] = {}
    done, after = set[str](), None
    for call, answer, is_error in answered_calls(trajectory):
        named = call.arguments.get(acts.read_argument if call.name == acts.read else acts.argument)
        if call.name == acts.read and isinstance(named, str) and not is_error:
            value = parsed(answer)
            if isinstance(value, dict):
                records[named] = value
        elif call.name == tool and isinstance(named, str):
            record = records.get(named)
            if is_error:
                if record is not None:
                    acts.refused.append((record, masked(answer, call.arguments)))
                    if good and after is None:
                        after = list[ToolCall]()
                        acts.after.append(after)
                continue
            if good and named not in done:
                acts.read_first.append(record is not None)
                done.add(named)
                if record is not None:
                    acts.wrote.append(record)
            if record is not None:
                for argument, given in call.arguments.items():
                    acts.paths[argument].update([*paths_of(record, given), "*"])
        elif after is not None and not is_error:
            after.append(call)


def links_of(
    tools: Sequence[ToolSpec], trajectories: Sequence[Trajectory]
) -> dict[tuple[str, str], tuple[str, str]]:
    """Return (writing tool, reading tool) -> the arguments of the two that hold the same values most often.

    An argument of the same name in both wins over one that happens to hold equal values.
    """
    mutates = {tool.name: bool(tool.mutates) for tool in tools}
    pairs: dict[tuple[str, str], Counter[tuple[str, str]]] = defaultdict(Counter)
    for trajectory in trajectories:
        known: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for call, _, is_error in answered_calls(trajectory):
            writes = mutates.get(call.name)
            for name, value in call.arguments.items():
                if not isinstance(value, str):
                    continue
                if writes:
                    for read, other in known[value]:
                        pairs[call.name, read][name, other] += 1
                elif writes is False and not is_error:
                    known[value].add((call.name, name))
    return {
        both: min(found, key=lambda pair: (-found[pair], pair[0] != pair[1], pair))
        for both, found in sorted(pairs.items())
    }


def paths_of(record: dict[str, Any], value: object) -> list[str]:
    """Return where a value stands in a record: `field`, or `field[].name` inside a list of records.

    >>> paths_of({"id": "L-1", "parts": [{"name": "lid"}]}, "lid")
    ['parts[].name']
    >>> paths_of({"parts": [{"id": "a1"}, {"id": "b2"}]}, ["b2", "a1"])
    ['parts[].id']
    """
    if isinstance(value, list):
        each = [paths_of(record, one) for one in value if isinstance(one, str)]
        return [path for path in each[0] if all(path in other for other in each)] if each else []
    found = [name for name, held in record.items() if held == value]
    for outer, held in record.items():
        if isinstance(held, list):
            inner = {
                name for item in held if isinstance(item, dict) for name, v in item.items() if v == value
            }
            found += [f"{outer}[].{name}" for name in sorted(inner)]
    return found
