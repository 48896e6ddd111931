"""One file as it is read row by row: each task once, and what was wrong in one sentence with its place."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import polars as pl
import pyarrow as pa
from pydantic import AfterValidator, ValidationError

from trace_assets.formats.chat import first_words
from trace_assets.formats.task_facts import TaskFacts
from trace_assets.records import CheckRow, MessageRow, Record, Task, Trajectory, TrajectoryHead
from trace_assets.records.table import polars_schema, to_frame
from trace_assets.store.content import RowSum
from trace_assets.untrusted.allowance import TooLarge

Kind = Literal[
    "left_out",  # a row that cannot be used
    "not_judged",  # kept without a verdict
    "contradicts",  # kept with its verdict, which its reward contradicts
    "broken_off",  # the file ends too early or is damaged
    "duplicate",  # the same trajectory again
    "held",  # another batch has it already
    "judged_anew",  # it has another verdict than when it was read before
    "other_task",  # a task of the same name reads otherwise
    "policies_alike",  # two policies whose names differ in capitals or blanks alone
    "unknown_format",  # not a file that can be read
    "unreadable",  # the file cannot be opened
    "too_large",  # reading it would take more memory than is allowed
    "given_up",  # the rest of a file is not read
    "incomplete",  # kept, but something in it could not be taken over
]
"""What sort of problem it is; they are counted by it."""

UNUSABLE = (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError, RecursionError)
"""What reading a row of the wrong shape raises: it is then left out and told of."""

MOST_WORDS = 1000
"""Characters of a sentence; files of others put whole documents where a word is expected."""
_UNTOLD = TaskFacts()
_WHERE = ("domain", "benchmark", "dataset", "suite")
"""What a row calls where its task comes from: tasks of several are numbered alike."""
_SAID = 0
"""In the place of what a task's first row tells: that another tells otherwise has been said."""


def _brief(text: str) -> str:
    return text if len(text) <= MOST_WORDS else f"{text[: MOST_WORDS - 200]} … {text[-200:]}"


def reason_of(error: Exception) -> str:
    """Return what one of `UNUSABLE` says, as the first half of a sentence."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"'{'.'.join(str(part) for part in first['loc'])}' is not usable ({first['msg']})"
    if isinstance(error, KeyError):
        return f"there is no {error}"
    return str(error).partition("\n")[0] or type(error).__name__


def problem_kind(error: Exception) -> Kind:
    """Return how a row that raised something is counted."""
    return "too_large" if isinstance(error, TooLarge) else "left_out"


class Problem(Record):
    """One thing in a file that could not be read as it should.

    `str(problem)` is the sentence for the person at the terminal.
    """

    path: str
    """The file, as it was named by the caller."""
    position: str = ""
    """Where in it: `simulations[3]`, `line 5 column 12`; empty when the whole file is meant."""
    message: Annotated[str, AfterValidator(_brief)]
    """What is wrong and what was done about it, without the place."""
    severity: Literal["error", "notice"] = "error"
    """error: something was left out. notice: everything was kept, but look at it."""
    kind: Kind = "left_out"
    """For counting: thousands of one kind are one line."""

    def __str__(self) -> str:
        """Return the sentence.

        >>> str(Problem(path="a.json", position="simulations[3]", message="there is no 'id'"))
        "a.json: simulations[3]: there is no 'id'."
        """
        place = f"{self.path}: {self.position}" if self.position else self.path
        return f"{place}: {self.message.rstrip('.')}."


def counted_kinds(problems: Iterable[Problem]) -> str:
    """Say how many there are of each kind, the most frequent first.

    >>> counted_kinds([Problem(path="a", message=said, kind="held") for said in "bc"])
    '2 held'
    """
    kinds = Counter(one.kind.replace("_", " ") for one in problems)
    return ", ".join(f"{n:,} {kind}" for kind, n in kinds.most_common())


def repeated(
    name: str, path: Path, where: str, same: bool | None, position: str = "", *, numbered: bool = False
) -> Problem:
    """Tell of a trajectory that was read before.

    Args:
        name: Its id.
        path: The file in which it stands again.
        where: Where it was read first.
        same: Whether its content is; None when it was not compared.
        position: Where in the file.
        numbered: Its id is the place in its file, so that it is surely another one.
    """
    if where.startswith("batch "):
        message = f"trajectory '{name}' is held by {where} already and stays there; to have this one "
        message += "instead, take that batch out first (`trace ingest --remove`)"
        return Problem(path=str(path), position=position, message=message, severity="notice", kind="held")
    content = {True: "the same", False: "with other content", None: "not compared"}[same]
    message = f"the trajectory '{name}' occurs twice ({content}, first in {where}); only the first is kept"
    if numbered and same is None:
        message += (
            "; files that are called alike are one batch and number their runs alike: rename one of them"
        )
    severity: Literal["error", "notice"] = "notice" if same else "error"
    return Problem(path=str(path), position=position, message=message, severity=severity, kind="duplicate")


def unreadable(path: Path, error: OSError) -> Problem:
    """Tell of a file that the system does not give."""
    if error.errno is None:  # raised by a library about what the file holds
        message = f"the file cannot be read ({reason_of(error)}); it is damaged"
        return Problem(path=str(path), message=message, kind="broken_off")
    reason = error.strerror or type(error).__name__
    message = f"the file cannot be opened ({reason}); check its name"
    return Problem(path=str(path), message=message, kind="unreadable")


def reading_of(task: Task) -> int:
    """Return a number that two tasks share when they read the same."""
    return reading(task.instruction, task.payload)


def reading(instruction: str, payload: Mapping[str, Any]) -> int:
    """Return the same of a task's parts."""
    return hash((instruction, json.dumps(payload, sort_keys=True)))


def differs(first: Task, task: Task, path: Path) -> Problem | None:
    """Say so when two tasks of one name read otherwise."""
    return differs_from(first.task_batch, reading_of(first), task, path)


def differs_from(batch: str, reads: int, task: Task, path: Path) -> Problem | None:
    """Say so when a task reads otherwise than in the batch that was read first."""
    if reads == reading_of(task):
        return None
    message = (
        f"the task '{task.task_id}' reads otherwise than in the batch '{batch}', "
        "which was read first and is kept; do not compare the two files task by task"
    )
    return Problem(path=str(path), message=message, severity="notice", kind="other_task")


class ProblemLog:
    """Counts problems by file, kind and severity, and keeps the first few of each as examples."""

    def __init__(self, examples: int = 1000) -> None:
        self.counts: Counter[tuple[str, Kind, str]] = Counter()
        self._examples = examples
        self._kept: dict[tuple[str, Kind, str], list[Problem]] = {}

    def add(self, problem: Problem) -> None:
        """Count one."""
        key = (problem.path, problem.kind, problem.severity)
        self.counts[key] += 1
        kept = self._kept.setdefault(key, [])
        if len(kept) < self._examples:
            kept.append(problem)

    def __len__(self) -> int:
        return self.counts.total()

    def __iter__(self) -> Iterator[Problem]:
        """Yield the examples, in the order in which their kinds were first met."""
        for kept in self._kept.values():
            yield from kept

    @property
    def errors(self) -> int:
        """How many left something out."""
        return sum(n for (_, _, severity), n in self.counts.items() if severity == "error")

    def surplus(self) -> Counter[tuple[str, Kind, str]]:
        """Return how many were counted without being kept as examples."""
        return Counter({key: n - len(self._kept[key]) for key, n in self.counts.items()})

    def lines(self, few: int = 3) -> Iterator[tuple[str, str]]:
        """Yield (severity, line): each problem of a kind that a file has few of, else the first and a count.

        Files of one folder that have a kind each are told of together: where a run is a file there are many.

        Args:
            few: Up to how many of one kind, or files with one, are told one by one.
        """
        alike: dict[tuple[str, Kind, str], list[tuple[str, Kind, str]]] = {}
        for key in self._kept:
            alike.setdefault((os.path.dirname(key[0]), *key[1:]), []).append(key)
        for keys in alike.values():
            n, kind = sum(self.counts[key] for key in keys), keys[0][1].replace("_", " ")
            if len(keys) > few:
                yield (
                    keys[0][2],
                    f"{self._kept[keys[0]][0]} And {n - 1:,} more like it in {len(keys):,} files ({kind}).",
                )
                continue
            for key in keys:
                kept = self._kept[key]
                if self.counts[key] <= few:
                    yield from ((problem.severity, str(problem)) for problem in kept)
                else:
                    yield key[2], f"{kept[0]} And {self.counts[key] - 1:,} more like it ({kind})."


class Reading:
    """One file of which nothing but conversations is known.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._known: dict[str, int] = {}
        self._met: set[int] = set()

    def told(
        self, trajectory: Trajectory, notice: str, position: str, facts: TaskFacts = _UNTOLD
    ) -> Iterator[Task | Trajectory | Problem]:
        """Yield a trajectory, before it its task where that is a new one, and what there is to say of both.

        Args:
            trajectory: What a row holds.
            notice: Why it is not judged, or what speaks against its verdict; empty when there is nothing.
            position: Where it is.
            facts: What the row tells of the task.
        """
        if self._is_again(trajectory):
            name = str(trajectory.source_id)
            yield repeated(name, Path(self._path), "this file", True, position)
            return
        where = [trajectory.metadata.get(name) for name in _WHERE]
        tells = hash(repr((facts, where)))
        if trajectory.task_id in self._known:
            if (facts != _UNTOLD or any(where)) and self._known[trajectory.task_id] not in (tells, _SAID):
                self._known[trajectory.task_id] = _SAID
                message = (
                    f"what it tells of the task '{trajectory.task_id}' is not what an earlier row tells, "
                    "which is kept; tasks that differ need ids, or targets, of their own"
                )
                yield Problem(
                    path=self._path, position=position, message=message, severity="notice", kind="other_task"
                )
        else:
            self._known[trajectory.task_id] = tells
            yield Task(
                task_id=trajectory.task_id,
                target=trajectory.target,
                task_batch=trajectory.task_batch,
                instruction=facts.instruction or first_words(trajectory.messages),
                has_expected=facts.has_expected,
                expected_actions=facts.expected_actions,
                expected_outputs=facts.expected_outputs,
                domain_policy=facts.domain_policy,
            )
        if notice:
            kind: Kind = "not_judged" if trajectory.success is None else "contradicts"
            yield Problem(path=self._path, position=position, message=notice, severity="notice", kind=kind)
        yield trajectory

    def _is_again(self, one: Trajectory) -> bool:
        """Tell whether a run of this name was met that says the same: logs are written, and joined, twice.

        One name alone says nothing, as it may be that of many runs.
        """
        counted = one.trajectory_id.removeprefix(f"{one.task_batch}/").isdigit()
        if one.source_id is None or not counted:  # what has an id of its own is told apart by that
            return False
        said = tuple((each.role, each.content, repr(each.tool_calls)) for each in one.messages)
        mark = hash((one.source_id, one.task_id, one.trial, one.reward, said))
        again = mark in self._met
        self._met.add(mark)
        return again

    def left_out(self, error: Exception, position: str, what: str) -> Problem:
        """Return the sentence about a row that raised one of `UNUSABLE`.

        Args:
            error: What it raised.
            position: Where it is.
            what: What it is called in a sentence, such as `this line`.
        """
        message = f"{reason_of(error)}; {what} is left out"
        return Problem(path=self._path, position=position, message=message, kind=problem_kind(error))


# Part of a batch as tables: what an importer hands to the spool, a few thousand messages at a time.


PART_TABLES: tuple[type[Record], ...] = (MessageRow, CheckRow, TrajectoryHead)
"""The tables that a batch of trajectories consists of; the heads come last."""


@dataclass(frozen=True)
class Part:
    """Some trajectories of one batch.

    Attributes:
        batch: The task batch.
        tables: Arrow table by table name, columns as the records say, sorted by the records' keys.
        sums: (sum of row hashes, rows) by table name, for the content version.
        ids: The trajectories in it, ascending.
    """

    batch: str
    tables: Mapping[str, pa.Table]
    sums: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    ids: Sequence[str] = ()

    @property
    def n_messages(self) -> int:
        """Messages in it."""
        return int(self.tables[MessageRow.table].num_rows)

    @property
    def nbytes(self) -> int:
        """Bytes of its tables in memory."""
        return sum(int(table.nbytes) for table in self.tables.values())


def make_part(given: Mapping[str, pa.Table]) -> Part:
    """Return a part of finished tables, which are sorted here when they are not."""
    heads = given[TrajectoryHead.table]
    ids = heads["trajectory_id"].to_pylist()
    ordered = all(a < b for a, b in pairwise(ids))
    tables, sums = {}, {}
    for record in PART_TABLES:
        table = given[record.table]
        if not ordered:
            table = _frame(table).sort(record.key).to_arrow()
        rows = RowSum(record, polars_schema(record))
        if len(record.key) > 1:
            rows.add_sorted(table)
        else:
            rows.add(_frame(table))
        tables[record.table], sums[record.table] = table, (rows.total, rows.rows)
    return Part(heads["task_batch"][0].as_py(), tables, sums, ids if ordered else sorted(ids))


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def part_of(trajectories: Sequence[Trajectory]) -> Part:
    """Return the tables of some trajectories of one batch."""
    frames = (
        to_frame([row for one in trajectories for row in one.message_rows()], MessageRow),
        to_frame([row for one in trajectories for row in one.check_rows()], CheckRow),
        to_frame([one.head() for one in trajectories], TrajectoryHead),
    )
    return make_part(
        {record.table: frame.to_arrow() for record, frame in zip(PART_TABLES, frames, strict=True)}
    )
