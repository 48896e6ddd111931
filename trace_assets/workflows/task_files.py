"""Files of tasks: read line by line, each row tried on the live target before it is believed."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trace_assets.errors import InputError, TraceError
from trace_assets.records import Task
from trace_assets.settings import Targets
from trace_assets.system.processes import finish
from trace_assets.targets.embedded.target import NAME as EMBEDDED
from trace_assets.targets.protocol import Target
from trace_assets.targets.registry import open_target
from trace_assets.untrusted.allowance import OF_MACHINE, Allowance, TooLarge
from trace_assets.untrusted.json_text import (
    check_cost,
    is_deep,
    longest,
    other_encoding,
    parse_json,
    read_embedded,
    too_long,
    whole_pairs,
)

PLACEHOLDER = "unassigned"
"""Stands for the batch until the file's own is known."""


@dataclass(frozen=True)
class Refused:
    """A row that cannot be used.

    Attributes:
        position: `line 7`, or `row 7` of a JSON list; counted from 1.
        text: The row as it was written.
        reason: One sentence.
    """

    position: str
    text: str
    reason: str


@dataclass(frozen=True)
class TaskFile:
    """What a file of tasks holds.

    Attributes:
        tasks: Usable and new.
        refused: Rows to put aside.
        held: Ids that another batch holds with the same content: nothing to do.
    """

    tasks: list[Task] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    held: list[str] = field(default_factory=list)


def example_rows(name: str, n: int, seed: int) -> list[dict[str, Any]]:
    """Return new tasks of a live target as rows of a task file.

    Args:
        name: The live target.
        n: How many.
        seed: Equal seeds give equal tasks under equal ids.

    Raises:
        InputError: The target's tasks are a fixed list.
    """
    if name != EMBEDDED:
        raise InputError(f"the tasks of '{name}' are a fixed list; only '{EMBEDDED}' draws new ones.")
    target = open_target(Targets(name=name, seed=seed, discovery_tasks=n))
    return [
        {
            "task_id": f"{name}/made-{seed}-{number:05d}",
            "target": name,
            "instruction": task.instruction,
            "tags": list(task.tags),
            "payload": task.payload,
        }
        for number, task in enumerate(target.tasks("discovery"))
    ]


def read_task_file(
    path: Path, target: Target, known: Mapping[str, Task], allowance: Allowance = OF_MACHINE
) -> TaskFile:
    """Read tasks of the live target from JSON lines (or one JSON list, as `trace sql --format json` prints).

    A row is a record of the table `tasks`: `task_id`, `instruction` and `payload` are wanted, `target` is the
    live one unless given, `task_batch` is not read, `payload` may be JSON text as SQL gives it. A row is
    refused with its place and reason; the others are kept.

    Args:
        path: The file.
        target: The live target, on which every task is opened and judged untouched.
        known: Tasks that other batches hold, by id.
        allowance: Memory that reading may take.

    Raises:
        InputError: The file is not text, takes more memory than that, or holds no row at all.
    """
    reserved = {
        _asked(task): f"{split} task '{task.task_id}'"
        for split in ("test", "validation")
        for task in target.tasks(split)
    }
    found, seen = TaskFile(), dict[str, str]()
    rows = list(_rows(path, allowance))
    if not rows:
        raise InputError("the file holds no task; write one JSON object a line.")
    for position, text, value in rows:
        try:
            task = _task(value, target)
            if (first := seen.setdefault(task.task_id, position)) != position:
                raise InputError(f"the task_id '{task.task_id}' is that of {first} too; ids are unique.")
            if (taken := reserved.get(_asked(task))) is not None:
                raise InputError(
                    f"it asks word for word what the {taken} asks, which must stay unseen; leave it out."
                )
            if (other := known.get(task.task_id)) is not None:
                if (other.instruction, other.payload) != (task.instruction, task.payload):
                    raise InputError(
                        f"batch '{other.task_batch}' holds another task with the id '{task.task_id}'; "
                        "give it an id of its own."
                    )
                found.held.append(task.task_id)
                continue
            _try(task, target)
        except InputError as error:
            found.refused.append(Refused(position, text, str(error)))
        else:
            found.tasks.append(task)
    return found


def _rows(path: Path, allowance: Allowance) -> Iterator[tuple[str, str, Any]]:
    """Yield place, text and value of every row; what is not JSON is yielded as the error."""
    try:
        if path.stat().st_size > longest(allowance.row):
            raise too_long(path.stat().st_size, allowance.row)
        data = path.read_bytes()
        check_cost(data, allowance.row)
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        found = other_encoding(data) or f" ({error.reason} at byte {error.start})"
        raise InputError(f"the file is not UTF-8 text{found}.") from error
    except TooLarge as error:
        raise InputError(f"{error}; divide the file.") from error
    if text.lstrip()[:1] == "[":
        try:
            values = parse_json(text.encode())
        except ValueError as error:
            raise InputError(f"the file begins as a JSON list and is not one ({error}).") from error
        for number, value in enumerate(values, 1):
            if is_deep(value):
                yield f"row {number}", "", InputError("the row is nested too deeply.")
            else:
                yield f"row {number}", json.dumps(value, ensure_ascii=False), value
        return
    for number, line in enumerate(text.split("\n"), 1):  # not splitlines: JSON strings may hold U+2028
        if line.strip():
            try:
                value = read_embedded(line)
                if whole_pairs(line.encode()) != line.encode():
                    value = InputError(
                        "it holds half a surrogate pair (\\ud800 to \\udfff), which is no text."
                    )
            except ValueError as error:
                value = InputError(f"the line is not JSON ({error}).")
            yield f"line {number}", line, value


def _task(value: Any, target: Target) -> Task:
    if isinstance(value, InputError):
        raise value
    if not isinstance(value, dict):
        raise InputError(f"a task is a JSON object, not a {type(value).__name__}.")
    row = {"target": target.name, **value, "task_batch": PLACEHOLDER}
    if isinstance(row.get("payload"), str):
        try:
            row["payload"] = read_embedded(row["payload"])
        except ValueError as error:
            raise InputError("its payload is a text that is not JSON.") from error
    try:
        task = Task.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(f"'{where}' is not usable: {first['msg']}.") from error
    if task.target != target.name:
        raise InputError(
            f"its target '{task.target}' cannot be rolled out here: the live target is '{target.name}' "
            "(targets.name)."
        )
    if not task.task_id.strip():
        raise InputError("its task_id is empty; every task needs an id of its own.")
    if not task.instruction.strip():
        raise InputError(f"task '{task.task_id}' has no instruction: nothing would be asked of the agent.")
    if task.split != "discovery":
        raise InputError(
            f"task '{task.task_id}' is of the split '{task.split}': only 'discovery' tasks are rolled out "
            "and diagnosed."
        )
    return task


def _asked(task: Task) -> str:
    """Return what is asked, however its spaces, its capitals and its characters were laid out on the way."""
    return " ".join(unicodedata.normalize("NFKC", task.instruction).casefold().split())


def _try(task: Task, target: Target) -> None:
    """Open a task, judge it untouched and close it: what breaks here would break in the middle of a run."""

    async def touch() -> None:
        episode = target.episode(task, seed=0)
        try:
            await episode.reset()
            await episode.verdict()
        finally:
            await episode.close()

    try:
        finish(touch())
    except InputError:
        raise
    except TraceError as error:
        if error.exit_code == 3:
            raise  # a service is missing: not the task's fault
        raise InputError(str(error)) from error
    except Exception as error:
        raise InputError(
            f"the target '{target.name}' cannot open task '{task.task_id}' "
            f"({type(error).__name__}: {error}); correct its payload."
        ) from error
