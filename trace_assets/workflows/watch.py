"""Watched folders: each new file becomes a task batch, once; what cannot be used is put aside and told of.

The folder is only looked at, so any program may fill it. A file counts as complete when nothing has touched
it for a while; its content, not its name, decides whether it is new.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

from trace_assets.errors import InputError, TraceError
from trace_assets.formats.batch_files import SUFFIXES
from trace_assets.records import Arrival, ArrivalKind, BaseCheckpoint, Quarantined, TrajectoryHead
from trace_assets.resources.inbox import batches, known_tasks, lay_tasks
from trace_assets.store.presence import announce
from trace_assets.study import Study
from trace_assets.untrusted.allowance import Allowance
from trace_assets.workflows.ingest import ingest
from trace_assets.workflows.task_files import Refused, read_task_file
from trace_assets.workflows.watched_folder import (
    FoundFile,
    WatchedFolder,
    file_digest,
    quarantine_file,
    quarantine_rows,
    without_beginning,
)

KINDS: tuple[ArrivalKind, ...] = get_args(ArrivalKind)
ENOUGH_SECONDS = 20.0
"""After so long no further file is begun: the rest waits for the next look (a sensor has a minute)."""
FEW = 3
"""Notices of a file that are told one by one."""


@dataclass
class Look:
    """What one look at a folder gave.

    Attributes:
        taken: Files that became a batch, or that held nothing new.
        refused: What was put aside.
        notices: Sentences about what was kept but needs a look, and about files that cannot be opened.
        waiting: Names of files that are still growing, or that there was no time for.
        busy: Another process is looking; nothing was done.
    """

    taken: list[Arrival] = field(default_factory=list)
    refused: list[Quarantined] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    busy: bool = False


@dataclass(frozen=True)
class Pending:
    """A batch that arrived and whose trajectories are not in the store yet.

    Attributes:
        batch: Partition key.
        kind: What came: trajectories to copy, or tasks to roll out.
        content_hash: Of the file.
        waits_for: The asset that must be made before it can be rolled out; empty when nothing is missing.
    """

    batch: str
    kind: ArrivalKind
    content_hash: str
    waits_for: str = ""


@dataclass(frozen=True)
class _Read:
    """What a file gave: batches with their number of new rows, refused rows, and rows that were known."""

    batches: dict[str, int]
    refused: list[Refused]
    held: int
    notices: list[str]


def look(study: Study, kind: ArrivalKind) -> Look:
    """Look at a watched folder once, and take what is new and complete.

    Good rows of a partly bad file are taken, its bad ones put aside. A file that cannot be used at all is
    moved to the quarantine and keeps no other file waiting. The same content, under whatever name, is taken
    once.

    Raises:
        TraceError: A service or package that reading needs is missing; nothing is put aside for that.
        OSError: The home cannot be written.
    """
    result, started = Look(), time.monotonic()
    with _alone(study) as mine:
        if not mine:
            result.busy = True
            return result
        folder = WatchedFolder(study, kind)
        if problem := folder.ready():
            result.notices.append(problem)
            return result
        arrivals, there = study.store.read(Arrival), {"", *batches(study)}
        known = {row.content_hash for row in arrivals}
        held = [row for row in arrivals if row.task_batch in there]
        for found in folder.files():
            if found.problem:
                result.notices.append(f"{found.name}: {found.problem}")
            elif found.digest is None or time.monotonic() - started > ENOUGH_SECONDS:
                result.waiting.append(found.name)
                folder.keep_in_mind(found)
            elif found.digest in known:
                folder.remember(found)
            else:
                try:
                    now = _later_than([*arrivals, *result.taken])
                    taken = _take(study, kind, found, found.digest, result, folder, held, now)
                except OSError as error:
                    if _is_of_home(error, study, folder):
                        raise
                    reason = error.strerror or type(error).__name__
                    result.notices.append(f"{found.name}: it cannot be taken ({reason}); tried again later.")
                    continue
                if taken:
                    known.add(found.digest)
                    folder.remember(found)
        folder.save()
    return result


_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}


def _is_of_home(error: OSError, study: Study, folder: WatchedFolder) -> bool:
    """Tell whether the home is in trouble, rather than one entry of a watched folder."""
    place = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else None
    inside = place is not None and place.is_relative_to(study.home.path)
    return error.errno in _FULL or (inside and place is not None and not place.is_relative_to(folder.path))


def pending(study: Study, kind: ArrivalKind | None = None) -> list[Pending]:
    """Return arrived batches that have no trajectories yet, in the order in which they came."""
    arrivals = sorted(study.store.read(Arrival), key=lambda row: (row.taken_at, row.content_hash))
    ready = study.settings.rollouts.engine == "openai" or study.store.has(BaseCheckpoint)
    return [
        Pending(
            row.task_batch,
            row.kind,
            row.content_hash,
            "" if row.kind == "trajectories" or ready else "base_model",
        )
        for row in arrivals
        if row.task_batch and kind in (None, row.kind) and not study.store.has(TrajectoryHead, row.task_batch)
    ]


def _take(
    study: Study,
    kind: ArrivalKind,
    found: FoundFile,
    digest: str,
    result: Look,
    folder: WatchedFolder,
    before: Sequence[Arrival],
    now: datetime,
) -> bool:
    """Take one file or put it aside; tell whether its content is known from now on."""
    batch = f"{re.sub(r'[^A-Za-z0-9_-]+', '-', found.path.stem).strip('-')[:60] or 'file'}-{digest[:8]}"
    announce(study.home)
    with TemporaryDirectory(dir=study.home.path, prefix=".watch-") as place:
        copy = Path(place) / (batch + _ending(found.path))
        shutil.copyfile(found.path, copy)
        if file_digest(copy) != digest:  # it was written to in between
            result.waiting.append(found.name)
            return False
        try:
            if kind == "tasks":
                read = _read_tasks(study, copy, batch)
            else:
                known = {one.content_hash for one in before if one.file == found.name}
                read = _read_trajectories(study, copy, folder.begun(found, copy, known))
        except (OSError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # one file must not keep the others waiting, nor a panic in a library
            if isinstance(error, TraceError) and error.exit_code == 3:
                raise  # a service is missing: not the file's fault
            reason = (
                str(error).replace(str(copy), found.name)
                if isinstance(error, TraceError)
                else "it takes more memory than there is."
                if isinstance(error, MemoryError)
                else f"reading it broke the program ({type(error).__name__}: {error}); please report it."
            )
            result.refused += quarantine_file(study, kind, found, digest, reason)
            return False
    if read.refused and not read.batches and not read.held:
        reason = f"none of its {len(read.refused)} rows can be used; the first: {read.refused[0].reason}"
        result.refused += quarantine_file(study, kind, found, digest, reason, read.refused)
        return False
    if read.refused:
        result.refused += quarantine_rows(study, kind, found, digest, read.refused)
    else:
        study.store.drop(Quarantined, digest[:16])  # what was refused before is usable now
    result.notices += [f"{found.name}: {text}" for text in read.notices[:FEW]]
    if len(read.notices) > FEW:
        result.notices.append(f"{found.name}: and {len(read.notices) - FEW} more of this kind.")
    arrivals = [
        Arrival(
            content_hash=digest,
            kind=kind,
            file=found.name,
            task_batch=name,
            n_taken=count,
            n_refused=len(read.refused),
            taken_at=now,
        )
        for name, count in (read.batches or {"": 0}).items()
    ]
    study.store.write(arrivals, Arrival, digest[:16])  # last: until then the file is taken again, and alike
    result.taken += arrivals
    return True


def _later_than(arrivals: Sequence[Arrival]) -> datetime:
    """Return the time, and never one before an earlier arrival's: clocks are set back between two looks."""
    last = max((one.taken_at for one in arrivals), default=datetime.min.replace(tzinfo=UTC))
    return max(datetime.now(UTC), last + timedelta(microseconds=1))


def _ending(path: Path) -> str:
    """Return how a file's name ends, where that says what it holds; others are as long as they like."""
    return path.suffix if path.name.endswith(SUFFIXES) else ""


def _read_tasks(study: Study, copy: Path, batch: str) -> _Read:
    allowance = Allowance.of_machine(study.settings.ingest.memory_gib)
    file = read_task_file(copy, study.target, known_tasks(study, but=batch), allowance)
    if file.tasks:
        lay_tasks(study, batch, file.tasks)
    some = ", ".join(file.held[:FEW])
    notices = [
        f"{len(file.held)} task(s) such as {some} are held by another batch and stay there; give them ids of "
        "their own to have them rolled out once more."
    ]
    batches = {batch: len(file.tasks)} if file.tasks else {}
    return _Read(batches, file.refused, len(file.held), notices if file.held else [])


def _read_trajectories(study: Study, copy: Path, begun: int) -> _Read:
    """Read a file, without the bytes at its beginning that were taken when it was shorter.

    Lines without ids of their own are called by their file's content, so they would be other trajectories.
    """
    notices = []
    if begun:
        if not without_beginning(copy, begun):
            return _Read({}, [], held=1, notices=[])
        notices = ["it has grown: its beginning was taken before, and lines are counted from there."]
    try:
        outcome = ingest(study, [copy], "auto")
    except InputError as error:
        if not begun:
            raise
        return _Read({}, [Refused("", "", str(error).replace(str(copy), copy.name))], 1, notices)
    return _Read(
        {name: count for name, count in {**outcome.unchanged, **outcome.new}.items() if count},
        [Refused(one.position, "", one.message) for one in outcome.errors],
        held=1,  # a file without one readable row was refused by `ingest`
        notices=[*notices, *(one.message for one in outcome.problems if one.severity == "notice")],
    )


@contextmanager
def _alone(study: Study) -> Iterator[bool]:
    """Let one process at a time look; the operating system frees the lock of a dead one."""
    with (study.home.path / "watch.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
