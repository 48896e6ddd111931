"""A table beside logs that says how runs went: a CSV file with an id a row, and a verdict.

Tools keep scores apart from traces, and people label in spreadsheets. A table that is named together with
logs, or lies in the folder that is named, judges those of their trajectories that say nothing themselves.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trace_assets.formats.outcome import Earned, earned
from trace_assets.formats.problem import Problem
from trace_assets.formats.spans.span import verdict_in
from trace_assets.records import Task, Trajectory
from trace_assets.untrusted.allowance import BOM

_IDS = (
    *("trajectory_id", "trace_id", "trace", "run_id", "run", "session_id", "session", "episode_id"),
    *(
        "conversation_id",
        "thread_id",
        "chat_id",
        "rollout_id",
        "sessionid",
        "runid",
        "id",
        "file",
        "filename",
    ),
)
_NAMES = ("name", "metric", "key")
_VALUES = ("value", "score")
_MEANT = dict.fromkeys(
    ("label", "verdict", "result", "status", "grade", "judgement", "judgment", "ok", "final_result"),
    "success",
)
"""Columns that mean a verdict in a table of verdicts; others by the names that scores have."""
_HEADER = 1 << 14
"""Bytes of a table in which its header ends."""
_LONGEST = 1 << 28
"""Bytes of a table that is read; a million rows are some tens of megabytes."""


@dataclass
class Verdicts:
    """What tables say of trajectories.

    Attributes:
        tables: The files.
        by_id: Trajectory's id, as the tables have it, to what it earned.
        problems: What is wrong with the tables.
        used: Ids that were met.
        against: Those of which a table says otherwise than the trajectory itself.
        first: The first trajectory that was met, to show how they are called.
    """

    tables: Sequence[Path] = ()
    by_id: dict[str, Earned] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    against: set[str] = field(default_factory=set)
    first: str = ""

    def judged(self, items: Iterable[Task | Trajectory | Problem]) -> Iterator[Task | Trajectory | Problem]:
        """Yield what a file holds, with these verdicts where a trajectory has none."""
        waiting: Problem | None = None
        for item in items:
            if isinstance(item, Problem) and item.kind == "not_judged" and self.by_id:
                waiting = item  # what it says of the next trajectory may not be so
                continue
            if isinstance(item, Trajectory) and (found := self._of(item)) is not None:
                got = {"reward": found.reward, "success": found.success}
                item, waiting = item.model_copy(update=got), None
            if waiting is not None:
                yield waiting
                waiting = None
            yield item
        if waiting is not None:
            yield waiting

    def _of(self, one: Trajectory) -> Earned | None:
        inside = one.trajectory_id.removeprefix(f"{one.task_batch}/")
        self.first = self.first or one.trajectory_id
        for name in (one.trajectory_id, inside, one.source_id):
            if name is not None and name in self.by_id:
                self.used.add(name)
                silent = one.success is None and one.reward is None and one.fault is None
                found = self.by_id[name]
                if None not in (one.success, found.success) and one.success != found.success:
                    self.against.add(name)
                return found if silent else None
        return None

    def told(self) -> Iterator[Problem]:
        """Yield what there is to say when all files were read."""
        yield from self.problems
        if self.against:
            message = f"it says otherwise of {len(self.against):,} trajectories than their own file, such as "
            message += f"'{min(self.against)}'; what their file says counts"
            yield Problem(path=str(self.tables[0]), message=message, severity="notice", kind="contradicts")
        left = self.by_id.keys() - self.used
        if left:
            message = (
                f"{len(left):,} of its {len(self.by_id):,} ids are none of the trajectories that were read, "
            )
            message += f"such as '{min(left)}'; they judge nothing"
            message += f" (the first trajectory is called '{self.first}')" if self.first else ""
            yield Problem(path=str(self.tables[0]), message=message, severity="notice", kind="incomplete")


def is_verdict_table(path: Path) -> bool:
    """Tell whether a file is a CSV table with an id and a verdict."""
    if path.suffix.lower() not in (".csv", ".tsv") or not path.is_file():
        return False
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEADER).removeprefix(BOM).decode("utf-8", "replace")
        columns = [name.strip().lower() for name in next(_rows(head), [])]
    except (OSError, csv.Error):
        return False
    return bool(set(_IDS) & set(columns)) and bool(_verdict(dict.fromkeys(columns, "1")) or _is_long(columns))


def set_apart(paths: Sequence[Path], format: str) -> tuple[list[Path], Verdicts]:
    """Return the files that may hold trajectories, and what the tables among the files named say.

    Args:
        paths: Files.
        format: What all of them are read as; only with `auto` is one of them a table.
    """
    tables = [path for path in paths if format == "auto" and is_verdict_table(path)]
    return [path for path in paths if path not in tables], _read_verdicts(tables)


def _read_verdicts(paths: Sequence[Path]) -> Verdicts:
    """Read tables; of one trajectory that two rows judge otherwise nothing is taken, and it is told of."""
    found = Verdicts(paths)
    for path in paths:
        try:
            rows = list(_judging(path))
        except (OSError, csv.Error) as error:
            message = f"the table cannot be read ({error}); it judges nothing"
            found.problems.append(Problem(path=str(path), message=message, kind="unreadable"))
            continue
        if not rows:
            found.problems.append(_not_understood(path))
        against: set[str] = set()
        for number, name, got in rows:
            if got.notice:
                told = {"path": str(path), "position": f"line {number}", "message": got.notice}
                found.problems.append(
                    Problem.model_validate({**told, "severity": "notice", "kind": "not_judged"})
                )
            if found.by_id.setdefault(name, got)[:2] != got[:2]:
                against.add(name)
        for name in against:
            found.by_id[name] = Earned(None, None)
        if against:
            message = f"its rows do not agree on {len(against):,} trajectories, such as '{min(against)}'; "
            message += "they are kept as not judged"
            told = {"path": str(path), "message": message, "severity": "notice", "kind": "not_judged"}
            found.problems.append(Problem.model_validate(told))
    return found


def _judging(path: Path) -> list[tuple[int, str, Earned]]:
    """Return (line, id, what it earned) of the rows that judge.

    Raises:
        OSError: The table cannot be read, or is too large.
        csv.Error: It is damaged.
    """
    if path.stat().st_size > _LONGEST:
        raise OSError(f"it has more than {_LONGEST >> 20} MiB; split it")
    rows = _rows(path.read_bytes().removeprefix(BOM).decode("utf-8", "replace"))
    columns = [name.strip().lower() for name in next(rows, [])]
    wide: list[tuple[int, str, Earned]] = []
    long: list[tuple[int, str, Earned]] = []
    for row in rows:
        told = dict(zip(columns, row, strict=False))
        name = next((told[key].strip() for key in _IDS if told.get(key, "").strip()), "")
        name = re.sub(r"\.(json|jsonl|ndjson)$", "", name)  # a run may be called by its file
        if not name:
            continue
        if (got := _verdict(told)) is not None:
            wide.append((rows.line_num, name, got))
        if _is_long(columns):
            metric = next(told[key] for key in _NAMES if key in told)
            value = next((told[key] for key in _VALUES if key in told), "")
            if (got := _verdict({metric: value})) is not None:
                long.append((rows.line_num, name, got))
    return long or wide


def _not_understood(path: Path) -> Problem:
    """Tell of a table with a column for verdicts in which no row says one in words that are known."""
    rows = _rows(path.read_bytes()[:_HEADER].removeprefix(BOM).decode("utf-8", "replace"))
    columns = [name.strip().lower() for name in next(rows, [])]
    first = dict(zip(columns, next(rows, []), strict=False))
    said = ", ".join(f"'{name}' ('{text[:40]}')" for name, text in first.items() if name not in _IDS and text)
    message = "no row of the table says how a run went in words that are known; it judges nothing. Its "
    message += (
        f"columns are {said or 'empty'}: write true or false, pass or fail, or a number from 0 to 1 into "
    )
    message += "one called 'success', 'verdict' or 'score'"
    return Problem(path=str(path), message=message, kind="left_out")


def why_no_table(path: Path) -> str:
    """Return why a CSV file is not taken for a table of verdicts, as a sentence's second half."""
    with path.open("rb") as stream:
        head = stream.read(_HEADER).removeprefix(BOM).decode("utf-8", "replace")
    columns = [name.strip() for name in next(_rows(head), [])]
    named = ", ".join(f"'{name}'" for name in columns[:8]) or "none"
    lacks = (
        ""
        if set(_IDS) & {name.lower() for name in columns}
        else f"none for a run's id ({', '.join(_IDS[:8])})"
    )
    lacks = lacks or "none for a verdict ('success', 'passed', 'verdict', 'outcome', 'score', 'reward')"
    return f"of a table only verdicts are read, and this one has the columns {named}, but {lacks}"


def _rows(text: str) -> Any:
    """Return a reader of a table's rows, whichever of the usual marks stands between its columns."""
    mark = max("\t;,", key=text.partition("\n")[0].count)
    return csv.reader(io.StringIO(text, newline=""), delimiter=mark)


def _is_long(columns: Sequence[str]) -> bool:
    """Tell a table with a row a score, which names it, from one with a column a score."""
    return any(name in columns for name in _NAMES) and any(name in columns for name in _VALUES)


def _verdict(told: dict[str, str]) -> Earned | None:
    values: dict[str, Any] = {}
    for name, text in told.items():
        if text.strip():
            values.setdefault(_MEANT.get(name.strip().lower(), name), _number(text))
    reward, success = verdict_in(values)
    return None if reward is None and success is None else earned(reward, success)


def _number(text: str) -> Any:
    try:
        value = float(text)
    except ValueError:
        return text
    return value if math.isfinite(value) else text
