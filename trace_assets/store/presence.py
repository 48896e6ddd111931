"""Which processes work on a home: each keeps a lock of its own as long as it lives, and not a moment longer.

A lock says that its holder is dead only on the machine that the holder ran on: on a shared folder the locks
of another machine may not be seen at all. So each process also says where it runs, and touches its file from
time to time. One of another machine is taken to live until that machine, or the cluster that both belong to,
says that it is dead, or until its file was watched for a minute and not touched. No clocks are compared; and
one that only slept puts nothing in place when it wakes (`store.leases`).

Where the home has a database (`store.database`), processes are rows there (`store.shared_rows`), and its
server knows of all machines who lives.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from trace_assets.errors import Unavailable
from trace_assets.store import shared_rows
from trace_assets.store.database import database_of
from trace_assets.store.files import Home, make_folder
from trace_assets.store.leases import known_as
from trace_assets.store.locks import is_held
from trace_assets.store.postgres import Database
from trace_assets.system.machine import Machine, booted_at, this_machine

CREW_VARIABLE = "TRACE_CREW"
"""Name of the cluster's sync that a process works for; those of one crew may work on one home from several
machines."""
NODE_VARIABLE = "TRACE_NODE"
"""The cluster's own id of the node that a process runs on."""
BEAT_SECONDS = 5.0
"""Between two touches of a process's file."""
SILENT_SECONDS = 60.0
"""A process of another machine whose file is not touched for so long is taken for dead."""
WATCH_SECONDS = 0.5
"""Between two looks at such a file."""


@dataclass(frozen=True)
class Process:
    """A process that announced itself.

    Attributes:
        name: Under which it is known to the home.
        pid: Process id, as its own machine or container counts.
        machine: Where it runs.
        since: When it announced itself, seconds (Unix) by its own clock.
        crew: Sync of a cluster that it works for, empty without one.
        node: Id of its node in that cluster.
        booted: When its machine was switched on by that clock, seconds (Unix); 0 where that is not known.
    """

    name: str
    pid: int
    machine: Machine
    since: float
    crew: str = ""
    node: str = ""
    booted: float = 0.0

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since, UTC).isoformat(timespec="seconds")
        return f"process {self.pid} on {self.machine.host} since {since}"


_own: dict[tuple[int, Path], tuple[str, int, str]] = {}
"""(process id, home) to name, descriptor and crew: kept open until the process ends."""


def announce(home: Home) -> str:
    """Let it be seen that this process works on a home, until it ends.

    Call before anything is written that a killed process would leave half done. Calling again costs nothing;
    a process that has joined or left a crew meanwhile, or was taken for dead, goes by another name from then
    on. Where processes of other machines are noted that is found out which live: some seconds, or a minute.

    Returns:
        The name under which it is known there.

    Raises:
        Unavailable: A process of another machine works there, and no cluster holds the two together.
    """
    mine = (os.getpid(), home.path)  # a forked child is somebody else
    crew = os.environ.get(CREW_VARIABLE, "")
    if (database := database_of(home.path)) is not None:
        return _announce_row(home, database, crew)
    before = _own.get(mine)
    if before is None or before[2] != crew or not _is_mine(_folder(home) / before[0], before[1]):
        folder = _folder(home)
        folder.mkdir(parents=True, exist_ok=True)
        name = uuid4().hex
        building = folder / f".{name}.new"
        descriptor = os.open(building, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o666)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, json.dumps(_own_words(crew, time.time())).encode())
        os.rename(building, folder / name)  # it is never seen without its lock
        _beats().begin(descriptor)
        # Only now: of two that come at the same time at least one sees the other.
        strangers = [one for one in elsewhere(home) if not crew or one.crew != crew]
        if (living := _first_to_beat(home, strangers)) is not None:
            (folder / name).unlink(missing_ok=True)
            _beats().end(descriptor)
            raise Unavailable(_refusal(home, living))
        _own[mine] = (name, descriptor, crew)
        known_as(home.path, name)
        if before is not None:
            (folder / before[0]).unlink(missing_ok=True)
            _beats().end(before[1])
    return _own[mine][0]


def _own_words(crew: str, since: float) -> dict[str, Any]:
    said = {"pid": os.getpid(), **asdict(this_machine()), "since": since, "booted": booted_at()}
    return {**said, "crew": crew, "node": os.environ.get(NODE_VARIABLE, "")}


_own_rows: dict[tuple[int, Path], tuple[str, str, Database]] = {}
"""(process id, home) to name, crew and database."""


def _announce_row(home: Home, database: Database, crew: str) -> str:
    mine = (os.getpid(), home.path)
    before = _own_rows.get(mine)
    if before is None or before[1] != crew or not shared_rows.is_noted(database, before[0]):
        name = uuid4().hex
        shared_rows.enter(database, name, _own_words(crew, _folder_time(home)))
        strangers = [one for one in elsewhere(home) if not crew or one.crew != crew]
        dead = {row.name for row in shared_rows.processes(database) if row.is_dead}
        shared_rows.strike(database, [one.name for one in strangers if one.name in dead])
        living_strangers = [one for one in strangers if one.name not in dead]
        if living_strangers and not has_shared_history(home):
            shared_rows.strike(database, [name])
            raise Unavailable(_refusal(home, living_strangers[0]))
        if not any(one[0] == os.getpid() for one in _own_rows):
            atexit.register(withdraw)
        _own_rows[mine] = (name, crew, database)
        known_as(home.path, name)
        if before is not None:
            shared_rows.strike(database, [before[0]])
    return _own_rows[mine][0]


def has_shared_history(home: Home) -> bool:
    """Whether Dagster's history is in a database, so that several machines may write it at once."""
    try:
        return "\n  postgres:" in (home.dagster / "dagster.yaml").read_text(encoding="utf-8")
    except OSError:
        return False


def _folder_time(home: Home) -> float:
    """Return the time by the clock that dates files in the home: what is half made is told by it."""
    folder = home.path / "locks"
    make_folder(folder)
    file = folder / f".{uuid4().hex}.now"
    file.touch()
    try:
        return file.stat().st_mtime
    finally:
        file.unlink()


def _is_mine(path: Path, descriptor: int) -> bool:
    """Whether a process's file is the one that it holds: not gone, nor a copy in a home that was put back."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def withdraw() -> None:
    """Take back what this process announced, on all homes: it works on none any more, for now."""
    for row in [one for one in _own_rows if one[0] == os.getpid()]:
        name, _, database = _own_rows.pop(row)
        known_as(row[1], "")
        with suppress(Unavailable):  # it is seen to be dead once this process has ended
            shared_rows.strike(database, [name], patience=1.0)
    for mine in [one for one in _own if one[0] == os.getpid()]:
        name, descriptor, _ = _own.pop(mine)
        known_as(mine[1], "")
        (mine[1] / "locks" / "processes" / name).unlink(missing_ok=True)
        _beats().end(descriptor)


class _Beats:
    """Touches the files of this process, as long as it lives."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._descriptors: set[int] = set()
        threading.Thread(target=self._beat, name="presence", daemon=True).start()
        atexit.register(withdraw)  # else another machine would have to wait to learn that it has ended

    def begin(self, descriptor: int) -> None:
        with self._lock:
            self._descriptors.add(descriptor)

    def end(self, descriptor: int) -> None:
        with self._lock:  # or the number would be another file's when it is touched
            self._descriptors.discard(descriptor)
            os.close(descriptor)

    def _beat(self) -> None:
        while True:
            with self._lock:
                for descriptor in self._descriptors:
                    with suppress(OSError):
                        # The time of its last change stays, which tells when it was announced; what moves is
                        # the time at which that was last set.
                        found = os.fstat(descriptor)
                        os.utime(descriptor, ns=(found.st_atime_ns, found.st_mtime_ns))
            time.sleep(BEAT_SECONDS)


_of_processes: dict[int, _Beats] = {}
"""By process id: a forked child has neither the thread nor the files."""


def _beats() -> _Beats:
    if os.getpid() not in _of_processes:
        _of_processes[os.getpid()] = _Beats()
    return _of_processes[os.getpid()]


def _first_to_beat(home: Home, strangers: list[Process]) -> Process | None:
    """Watch the files of processes of other machines; strike out those that give no sign of life.

    Returns:
        One that lives; None when none does.
    """
    before = {one: _touched(_folder(home) / one.name) for one in strangers}
    give_up = time.monotonic() + SILENT_SECONDS
    while before and time.monotonic() < give_up:
        time.sleep(WATCH_SECONDS)
        for one, last in list(before.items()):
            now = _touched(_folder(home) / one.name)
            if now is None:  # it has ended
                del before[one]
            elif now != last:
                return one
    for one in before:
        forget(home, one.name)
    return None


def _touched(path: Path) -> int | None:
    """Return when a file was last touched, by the clock of whoever keeps it; None where it is gone."""
    try:
        with path.open("rb") as file:  # opened: that is when a network folder asks its server
            return os.fstat(file.fileno()).st_ctime_ns
    except FileNotFoundError:
        return None


def _refusal(home: Home, stranger: Process) -> str:
    return (
        f"another machine works on {home.path} ({stranger}): two machines may share a home only as nodes of "
        'one cluster ([cluster] engine = "ray"). Wait for that process, or give this machine another '
        "TRACE_HOME."
    )


def elsewhere(home: Home) -> list[Process]:
    """Return the processes of other machines that may be at work on a home."""
    if (database := database_of(home.path)) is not None:
        rows = (_process_of(row.name, row.said) for row in shared_rows.processes(database))
        return [one for one in rows if one is not None and not one.machine.shares_kernel(this_machine())]
    found = (_process(path) for path in _paths(home))
    return [one for one in found if one is not None and _is_foreign(one)]


def is_alive(home: Home, name: str) -> bool:
    """Whether the process of that name lives, as far as can be told here."""
    if (database := database_of(home.path)) is not None:
        return any(row.name == name and not row.is_dead for row in shared_rows.processes(database))
    return _lives(_folder(home) / name)


def living(home: Home) -> dict[str, float]:
    """Return the processes at work on a home by name, with the time at which each announced itself (Unix).

    Those of other machines are among them until somebody who can tell has said that they are dead.
    """
    if (database := database_of(home.path)) is not None:
        rows = shared_rows.processes(database)
        return {row.name: float(row.said.get("since", 0.0)) for row in rows if not row.is_dead}
    return {path.name: _time(path) for path in _paths(home) if _lives(path)}


def boots(home: Home) -> list[float]:
    """Return when this machine was switched on, seconds (Unix): now, and as each living process saw it.

    That moves only when the clock is set: forward where the last is later than an earlier one.
    """
    alive = living(home)
    if (database := database_of(home.path)) is not None:
        found = [_process_of(row.name, row.said) for row in shared_rows.processes(database)]
    else:
        found = [_process(path) for path in _paths(home)]
    here = [one for one in found if one is not None and one.machine.shares_kernel(this_machine())]
    return [booted_at(), *(one.booted for one in here if one.name in alive and one.booted)]


def dead_here(home: Home) -> list[str]:
    """Return the processes of which this machine can tell that they are dead, by name."""
    if (database := database_of(home.path)) is not None:
        return [row.name for row in shared_rows.processes(database) if row.is_dead]
    return [path.name for path in _paths(home) if not _lives(path)]


def forget(home: Home, name: str) -> None:
    """Take note that a process is dead: its own machine said so, or the cluster that lost its node."""
    if (database := database_of(home.path)) is not None:
        shared_rows.strike(database, [name])
        return
    (_folder(home) / name).unlink(missing_ok=True)


def forget_dead(home: Home) -> list[str]:
    """Remove what dead processes left here.

    Returns:
        Their names.
    """
    gone = dead_here(home)
    if (database := database_of(home.path)) is not None:
        shared_rows.strike(database, gone)
        return gone
    long_ago = time.time() - 60  # a younger one may not have its lock yet
    unborn = [path for path in _folder(home).glob(".*.new") if _time(path) < long_ago and not _lives(path)]
    for path in (*(_folder(home) / name for name in gone), *unborn):
        path.unlink(missing_ok=True)
    return gone


def _lives(path: Path) -> bool:
    if is_held(path):
        return True
    process = _process(path)
    return process is not None and _is_foreign(process)


def _is_foreign(process: Process) -> bool:
    """Whether this machine cannot tell that the process is dead: its locks and ids are another kernel's."""
    here = this_machine()
    if process.machine.shares_kernel(here):
        return False
    return not process.machine.ran_before(here, process.since, booted_at())


def _process(path: Path) -> Process | None:
    """Return what a process said of itself; None when nothing can be read, or an earlier version wrote it."""
    try:
        return _process_of(path.name.strip("."), json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None


def _process_of(name: str, said: Any) -> Process | None:
    try:
        machine = Machine(str(said["host"]), str(said["boot"]), str(said["installation"]))
        since, crew, node = float(said["since"]), str(said["crew"]), str(said["node"])
        booted = float(said.get("booted", 0.0))  # earlier versions did not say it
        return Process(name, int(said["pid"]), machine, since, crew, node, booted)
    except (ValueError, TypeError, KeyError):
        return None


def _time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return time.time()


def _paths(home: Home) -> list[Path]:
    return sorted(_folder(home).glob("[0-9a-f]*"))


def _folder(home: Home) -> Path:
    return home.path / "locks" / "processes"
