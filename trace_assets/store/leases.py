"""Which beginning of an item counts: a writer whose item was begun anew elsewhere can put nothing in place.

Where the home has a database (`store.database`) the epochs are rows there (`store.shared_rows`), else files.

Each beginning of an item has a number, its epoch, one more than the last. A process that was stopped, or cut
off from the others, may wake after they took it for dead and began its item anew: it still has all its files
open, and its lock perhaps. So before it puts anything in place in the home its epoch is compared with the
present one, under the lock that everybody takes who puts files in place. No clock is asked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from trace_assets.errors import Unavailable
from trace_assets.store import shared_rows
from trace_assets.store.database import database_of
from trace_assets.store.files import make_folder, write_text
from trace_assets.store.postgres import Database


class Superseded(Unavailable):
    """What this process works on was begun anew by another: its own work counts no more."""


class Lease(Protocol):
    """One beginning of an item: in a file, or in a row of a database."""

    @property
    def item(self) -> str:
        """Return the item's name."""

    @property
    def epoch(self) -> int:
        """Return how often the item had been begun with this one."""

    def confirm(self) -> None:
        """Make sure that this is the last beginning.

        Raises:
            Superseded: There was a later one.
        """


@dataclass(frozen=True)
class FileLease:
    """One beginning of an item, by a file.

    Attributes:
        file: Holds the present epoch of the item.
        item: Its name.
        epoch: How often the item had been begun with this one.
        token: What the file holds as long as this is the last beginning: of two who begin in one moment, and
            count alike, the file tells who came last.
    """

    file: Path
    item: str
    epoch: int
    token: str

    def confirm(self) -> None:
        """Make sure that this is the last beginning.

        Raises:
            Superseded: There was a later one.
        """
        _require_same(self.file.parent.parent.parent)
        if (now := _read(self.file)) != self.token:
            raise _begun_anew(self.item, self.epoch, _epoch(now))


@dataclass(frozen=True)
class RowLease:
    """One beginning of an item, by a row.

    Attributes:
        database: Where the row is.
        taken: What it held when it was taken.
    """

    database: Database
    taken: shared_rows.Taken

    @property
    def item(self) -> str:
        """Return the item's name."""
        return self.taken.item

    @property
    def epoch(self) -> int:
        """Return how often the item had been begun with this one."""
        return self.taken.epoch

    def confirm(self) -> None:
        """Make sure that this is the last beginning.

        Raises:
            Superseded: There was a later one.
        """
        refuse(
            self.database.run(lambda tx: shared_rows.first_lost(tx, self.database.study, [self.taken], ""))
        )


def refuse(lost: shared_rows.Lost | None) -> None:
    """Raise where something of this process's own is lost.

    Raises:
        Superseded: It is.
    """
    if lost is not None:
        raise (
            _taken_for_dead()
            if lost.taken is None
            else _begun_anew(lost.taken.item, lost.taken.epoch, lost.epoch)
        )


def _begun_anew(item: str, epoch: int, now: int) -> Superseded:
    return Superseded(
        f"{item} was begun anew elsewhere (for the {now}. time; process {os.getpid()} "
        f"began it for the {epoch}.): nothing of this one's is put in place, the other's counts."
    )


def _taken_for_dead(home: Path | None = None) -> Superseded:
    return Superseded(
        f"process {os.getpid()} gave no sign of life on {home or 'its home'} for so long that another "
        "machine took it for dead and went on: nothing more of it is put in place; run the command again."
    )


def _put_back(home: Path) -> Superseded:
    return Superseded(
        f"{home} was put back, or another folder laid in its place, while process {os.getpid()} worked on "
        "it: nothing more of it is put in place, for it would be mixed with what lies there now; run the "
        "command again."
    )


def _moved(home: Path) -> Superseded:
    return Superseded(
        f"{home} was moved or removed while process {os.getpid()} worked on it: nothing more of it is put in "
        "place; name the folder where it lies now (TRACE_HOME), and run the command again."
    )


_held: dict[tuple[int, Path], list[Lease]] = {}
"""(process id, home) to what this process makes there; a forked child is somebody else."""


def begin(home: Path, item: str) -> Lease:
    """Begin an item: whoever began it before can put nothing in place from now on."""
    if (database := database_of(home)) is not None:
        taken = shared_rows.take(database, item, {"pid": os.getpid()}, whoever_holds=True)
        assert isinstance(taken, shared_rows.Taken)
        return RowLease(database, taken)
    file = home / "locks" / "epochs" / item
    epoch = epoch_of(home, item) + 1
    lease = FileLease(file, item, epoch, f"{epoch} {uuid4().hex}\n")
    make_folder(file.parent)
    write_text(file, lease.token)
    return lease


@contextmanager
def holding(home: Path, lease: Lease) -> Iterator[None]:
    """Have all that this process puts in place in a home compared with a lease, until the body ends."""
    mine = _held.setdefault((os.getpid(), home), [])
    mine.append(lease)
    try:
        yield
    finally:
        mine.remove(lease)


def confirm_all(home: Path) -> None:
    """Make sure that all that this process makes in a home is still its own to make.

    Raises:
        Superseded: Something was begun anew elsewhere, or this process was taken for dead.
    """
    if (database := database_of(home)) is not None:
        if mine := _own(home):
            database.run(lambda tx: _compare(tx, database, home, mine))
        return
    held = _held.get((os.getpid(), home), [])
    for lease in tuple(held):
        try:
            lease.confirm()
        except Superseded:
            if lease in held:  # else another thread let go of it meanwhile, and it was free to be begun
                raise
    _require_same(home)
    if is_struck_out(home, own_name(home)):
        raise _taken_for_dead(home)


@contextmanager
def committing(home: Path) -> Iterator[None]:
    """Put something in place in the body, in what this process makes in a home.

    With a database what was compared stays so until the body has ended. By files it is compared once, and
    whoever puts a file in place compares again after that: see `confirm_all`.

    Raises:
        Superseded: Something was begun anew elsewhere, or this process was taken for dead.
    """
    database = database_of(home)
    if database is None or not (mine := _own(home)):
        confirm_all(home)
        yield
        return
    with database.guarded(lambda tx: _compare(tx, database, home, mine)):
        yield


def _own(home: Path) -> tuple[list[shared_rows.Taken], str] | None:
    held = [one.taken for one in _held.get((os.getpid(), home), ()) if isinstance(one, RowLease)]
    name = own_name(home)
    return (held, name) if held or name else None


def _compare(
    connection: Any, database: Database, home: Path, mine: tuple[list[shared_rows.Taken], str]
) -> None:
    held, name = mine
    while (lost := shared_rows.first_lost(connection, database.study, held, name)) is not None:
        now = _own(home)
        if lost.taken is None or (now is not None and lost.taken in now[0]):
            refuse(lost)
        # Another thread let go of it after `mine` was read, and it was free to be begun.
        held = [one for one in held if one != lost.taken]


def epoch_of(home: Path, item: str) -> int:
    """Return how often an item was begun; 0 where that was never counted."""
    if (database := database_of(home)) is not None:
        return shared_rows.epoch_of(database, item)
    return _epoch(_read(home / "locks" / "epochs" / item))


def _epoch(token: str) -> int:
    number = token.partition(" ")[0]
    return int(number) if number.isdecimal() else 0


def _read(file: Path) -> str:
    # It is opened by its name each time: that is when a network folder asks its server.
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


@dataclass(frozen=True)
class _Presence:
    """How a process is known to a home.

    Attributes:
        name: Under which it announced itself (`store.presence`).
        file: Device and inode of its file there; none where a database keeps a row instead.
        folder: Those of the folder of that file.
    """

    name: str
    file: tuple[int, int] | None
    folder: tuple[int, int] | None


_present: dict[tuple[int, Path], _Presence] = {}
"""(process id, home) to how a process is known there."""


def known_as(home: Path, name: str) -> None:
    """Note the name under which this process is known to a home; none when it took it back."""
    if name:
        file = _presence_file(home, name)
        _present[os.getpid(), home] = _Presence(name, _identity(file), _identity(file.parent))
    else:
        _present.pop((os.getpid(), home), None)


def own_name(home: Path) -> str:
    """Return the name under which this process is known to a home, empty when it announced nothing."""
    known = _present.get((os.getpid(), home))
    return known.name if known else ""


def require_there(home: Path) -> None:
    """Make sure that a home which this process works on still lies where it lay.

    Raises:
        Superseded: It does not: a folder made in its place would be taken for it.
    """
    if (os.getpid(), home) in _present and not home.exists():
        raise _moved(home)


def _require_same(home: Path) -> None:
    """Make sure that the home is still the folder in which this process announced itself.

    A copy of its file is not its own: a home that was put back may hold that, with the leases of the moment
    in which it was copied, and what was put in place since then is gone.

    Raises:
        Superseded: It is another, or nowhere.
    """
    known = _present.get((os.getpid(), home))
    if known is None or known.file is None:
        return
    file = _presence_file(home, known.name)
    now = _identity(file)
    is_there = now == known.file or (now is None and _identity(file.parent) == known.folder)
    if not is_there and _present.get((os.getpid(), home)) == known:  # else it announced itself anew meanwhile
        raise _put_back(home) if home.exists() else _moved(home)


def _presence_file(home: Path, name: str) -> Path:
    return home / "locks" / "processes" / name


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        about = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return about.st_dev, about.st_ino


def is_struck_out(home: Path, name: str) -> bool:
    """Whether somebody who could tell took note that the process of a name is dead, or gone for good."""
    if (database := database_of(home)) is not None:
        return bool(name) and not shared_rows.is_noted(database, name)
    return bool(name) and not _presence_file(home, name).exists()
