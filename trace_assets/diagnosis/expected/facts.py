"""What the runs of one target, its tasks and its policy tell together: what doubts about tasks rest on."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from trace_assets.diagnosis.detectors.identity import looks_like_id, normal
from trace_assets.diagnosis.detectors.mutation import mutating_tools
from trace_assets.diagnosis.detectors.policy_clauses import Clauses, clauses
from trace_assets.diagnosis.detectors.policy_limits import Most, limits
from trace_assets.diagnosis.detectors.policy_rules import Ban, bans, optional_fields
from trace_assets.diagnosis.detectors.policy_text import (
    PolicyText,
    addresses_nobody,
    read_policy,
    shown_policy,
)
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.values import flat, json_of, leaves, outermost, records_in, scalars_of
from trace_assets.diagnosis.detectors.write_against_policy import is_shown
from trace_assets.records import ExpectedAction, Task, ToldTask, Trajectory

Told = Task | ToldTask
Thing = Mapping[str, Any]
"""A JSON object in a result."""
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


class Facts:
    """Tasks beside what was seen in their runs.

    Args:
        trajectories: Of one target. Outcomes are used: this is no labelling.
        tasks: By id; what is not known of a task is left open.
    """

    def __init__(self, trajectories: Sequence[Trajectory], tasks: Mapping[str, Told]) -> None:
        self.runs = list(trajectories)
        self.tasks = {one.task_id: tasks[one.task_id] for one in self.runs if one.task_id in tasks}
        self.of_task: dict[str, list[Trajectory]] = defaultdict(list)
        for one in self.runs:
            self.of_task[one.task_id].append(one)
        self._transcripts: dict[str, Transcript] = {}
        self._things: dict[str, list[Thing]] = {}
        self._known: dict[str, str] = {}
        self._expected: dict[str, list[tuple[int, ExpectedAction]]] = {}
        self._bans: dict[str, list[Ban]] = {}
        self._limits: dict[str, list[Most]] = {}
        self._clauses: dict[tuple[str, tuple[str, ...]], Clauses | None] = {}

    def transcript(self, one: Trajectory) -> Transcript:
        """Return a run's calls and results."""
        if one.trajectory_id not in self._transcripts:
            self._transcripts[one.trajectory_id] = Transcript(one)
        return self._transcripts[one.trajectory_id]

    @cached_property
    def writes(self) -> frozenset[str]:
        """Tools that change something, expected ones among them."""
        expected = {action.name for task in self.tasks.values() for action in task.expected_actions}
        return mutating_tools([self.transcript(one) for one in self.runs], names=expected)

    @cached_property
    def policy(self) -> PolicyText:
        """The domain's policy; empty where none is recorded, or where it is not the one that was followed."""
        recorded = (task.domain_policy for task in self.tasks.values() if task.domain_policy)
        text = next(recorded, "") or shown_policy(self.runs)
        return read_policy("" if addresses_nobody(text, self.runs[:20]) else text)

    def expected_writes(self, task_id: str) -> list[tuple[int, ExpectedAction]]:
        """Return (place among the expected writes, action) of a task."""
        if task_id not in self._expected:
            task = self.tasks.get(task_id)
            wanted = [one for one in task.expected_actions if one.name in self.writes] if task else []
            self._expected[task_id] = list(enumerate(wanted))
        return self._expected[task_id]

    def forget(self, task_id: str) -> None:
        """Let go of what was kept to judge a task."""
        self._things.pop(task_id, None)
        self._known.pop(task_id, None)
        for one in self.of_task[task_id]:
            self._transcripts.pop(one.trajectory_id, None)

    def things(self, task_id: str) -> list[Thing]:
        """Return every JSON object that results of a task's runs show, nested ones too."""
        if task_id not in self._things:
            self._things[task_id] = [
                thing
                for one in self.of_task[task_id]
                for step in self.transcript(one).steps
                if not step.failed and step.answer is not None
                for thing in things_in(step.result)
            ]
        return self._things[task_id]

    def record(self, task_id: str, name: str) -> Thing | None:
        """Return the first object that a look showed under an identifier in a task's runs, unchanged."""
        wanted = normal(name)
        for one in self.of_task[task_id]:
            for step in self.transcript(one).steps:
                if step.tool in self.writes and not step.failed and wanted in step.objects:
                    break
                shown = step.answer is not None and not step.failed and wanted in step.objects
                for thing in _records_in(step.result) if shown and step.tool not in self.writes else ():
                    own = any(normal(value) == wanted for value in thing.values())
                    if own or _own_name(thing) == wanted:
                        return thing
        return None

    def texts(self, task_id: str) -> str:
        """Return all that was told or shown in a task's runs, by others than the agent."""
        task = self.tasks.get(task_id)
        texts = [task.instruction if task else "", self.policy.text]
        for one in self.of_task[task_id]:
            texts += [said.content for said in one.messages if said.role != "assistant" and said.content]
        return "\n".join(texts)

    def is_known(self, task_id: str, value: str) -> bool:
        """Tell whether a value stands in what a task tells, in its runs or in the policy, as a word."""
        if task_id not in self._known:
            self._known[task_id] = self.texts(task_id).lower()
        return re.search(rf"(?<![\w-]){re.escape(value.lower())}(?![\w-])", self._known[task_id]) is not None

    @cached_property
    def values(self) -> Mapping[str, frozenset[str]]:
        """By field, the values that records have in any run."""
        found: dict[str, set[str]] = defaultdict(set)
        for fields in self._records:
            for field, value in fields.items():
                found[field].add(value)
        return {field: frozenset(own) for field, own in found.items()}

    @cached_property
    def _records(self) -> list[Mapping[str, str]]:
        """Fields of all records that any run saw, each once."""
        every = (
            observation.fields
            for one in self.runs
            for seen in self.transcript(one).observations.values()
            for observation in seen
        )
        return list({tuple(sorted(fields.items())): fields for fields in every}.values())

    def bans(self, tool: str) -> list[Ban]:
        """Return what the policy forbids to do with a tool, by values that records have."""
        if tool not in self._bans:
            self._bans[tool] = bans(
                self.policy, tool, self.values, self.given[tool], optional_fields(self._records), self.writes
            )
        return self._bans[tool]

    def limits(self, tool: str) -> list[Most]:
        """Return the numbers beyond which the policy does not allow an argument of a tool."""
        if tool not in self._limits:
            self._limits[tool] = limits(self.policy, tool, self.given[tool])
        return self._limits[tool]

    @cached_property
    def given(self) -> Mapping[str, Mapping[str, set[str]]]:
        """By tool and argument, the texts that tasks want it to be given and that it was given."""
        found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        wanted = ((one.name, one.arguments) for task in self.tasks.values() for one in task.expected_actions)
        made = (
            (step.tool, step.arguments)
            for one in self.runs
            for step in self.transcript(one).steps
            if step.tool in self.writes
        )
        for tool, arguments in (*wanted, *made):
            for name, value in flat(arguments).items():
                found[tool][name].update([value] if isinstance(value, str) else ())
        return found

    def clauses(self, tool: str, fields: Mapping[str, str]) -> Clauses | None:
        """Return what the policy makes a tool depend on, read by records with the same fields."""
        key = (tool, tuple(sorted(fields)))
        if key not in self._clauses:
            values: dict[str, set[str]] = defaultdict(set)
            for record in self.records_like(fields):
                for field, value in record.items():
                    values[field].add(value)
            self._clauses[key] = clauses(self.policy, tool, values, self.given[tool])
        return self._clauses[key]

    def records_like(self, fields: Mapping[str, str]) -> list[Mapping[str, str]]:
        """Return the records of any run that have the same fields."""
        return [one for one in self._records if one.keys() == fields.keys()]

    def shows(self, task_id: str, words: Sequence[str]) -> bool:
        """Tell whether a result of a task's runs is one of some words, or has it as a value."""
        return any(
            is_shown(words, step.result)
            for one in self.of_task[task_id]
            for step in self.transcript(one).steps
            if not step.failed and step.tool not in self.writes
        )

    @cached_property
    def granted(self) -> Mapping[tuple[str, str], Mapping[str, tuple[int, int]]]:
        """(tool, argument) to how many numbers tasks demand there, and how many of these they tell.

        By task id, and for all under the empty name; tasks without an instruction are left out.
        """
        found: dict[tuple[str, str], dict[str, tuple[int, int]]] = defaultdict(dict)
        for task_id, task in self.tasks.items():
            for _, action in self.expected_writes(task_id) if task.instruction else ():
                for name, value in action.arguments.items():
                    if is_number(value):
                        told = int(names_number(task.instruction, value))
                        for key in ("", task_id):
                            n, before = found[action.name, name].get(key, (0, 0))
                            found[action.name, name][key] = n + 1, before + told
        return found

    @cached_property
    def parts(self) -> Mapping[tuple[str, str], list[Thing]]:
        """(key, value) of identifiers in expected arguments to the objects that any run showed under them."""
        wanted = {
            (path.rpartition(".")[2], normal(value))
            for task_id in self.tasks
            for _, action in self.expected_writes(task_id)
            for path, value in leaves(action.arguments)
            if looks_like_id(value)
        }
        keys = {key for key, _ in wanted}
        found: dict[tuple[str, str], list[Thing]] = defaultdict(list)
        if not wanted:
            return found
        for one in self.runs:
            for step in self.transcript(one).steps:
                if step.failed or step.answer is None or not any(f'"{key}"' in step.result for key in keys):
                    continue
                for thing in things_in(step.result):
                    for key in keys & thing.keys():
                        if (key, normal(thing[key])) in wanted:
                            found[key, normal(thing[key])].append(thing)
        return found


def is_number(value: Any) -> bool:
    """Tell whether a value is a number, truth values aside."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def names_number(text: str, amount: float) -> bool:
    """Tell whether a text holds a number as one of its own.

    >>> names_number("refuel 2.0 GB", 2), names_number("refuel 2GB", 2.0), names_number("in 20 minutes", 2)
    (True, True, False)
    """
    return any(abs(float(found.replace(",", "")) - amount) < 1e-9 for found in _NUMBER.findall(text))


def things_in(text: str) -> Iterator[Thing]:
    """Yield the JSON objects of a result's text, the outermost first; none when it is no JSON."""
    yield from objects(json_of(text))


def _records_in(text: str) -> list[Mapping[str, Any]]:
    return outermost(json_of(text)) or list(records_in(text))


def _own_name(thing: Thing) -> str:
    """Return the first identifier in a record: its own, however deep it stands."""
    return next((normal(value) for value in scalars_of(thing).values() if looks_like_id(value)), "")


def objects(value: Any) -> Iterator[Thing]:
    """Yield the JSON objects in a value, the outermost first.

    >>> [sorted(one) for one in objects({"a": [{"b": 1}], "c": 2})]
    [['a', 'c'], ['b']]
    """
    if isinstance(value, Mapping):
        yield value
        for item in value.values():
            yield from objects(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from objects(item)
