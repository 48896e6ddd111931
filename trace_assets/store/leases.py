"""Which beginning of an item counts: a writer whose item was begun anew elsewhere can put nothing in place.

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
from uuid import uuid4

from trace_assets.errors import Unavailable
from trace_assets.store.files import make_folder, replacing_file


class Superseded(Unavailable):
    """What this process works on was begun anew by another: its own work counts no more."""


@dataclass(frozen=True)
class Lease:
    """One beginning of an item.

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
        if (now := _read(self.file)) != self.token:
            raise Superseded(
                f"{self.item} was begun anew elsewhere (for the {_epoch(now)}. time; process {os.getpid()} "
                f"began it for the {self.epoch}.): nothing of this one's is put in place, the other's counts."
            )


_held: dict[tuple[int, Path], list[Lease]] = {}
"""(process id, home) to what this process makes there; a forked child is somebody else."""


def begin(home: Path, item: str) -> Lease:
    """Begin an item: whoever began it before can put nothing in place from now on."""
    file = home / "locks" / "epochs" / item
    epoch = epoch_of(file) + 1
    lease = Lease(file, item, epoch, f"{epoch} {uuid4().hex}\n")
    make_folder(file.parent)
    with replacing_file(file) as partial:
        partial.write_text(lease.token, encoding="utf-8")
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
    for lease in tuple(_held.get((os.getpid(), home), ())):
        lease.confirm()
    if is_struck_out(home, own_name(home)):
        raise Superseded(
            f"process {os.getpid()} gave no sign of life on {home} for so long that another machine took it "
            "for dead and went on: nothing more of it is put in place; run the command again."
        )


def epoch_of(file: Path) -> int:
    """Return how often an item was begun; 0 where that was never counted."""
    return _epoch(_read(file))


def _epoch(token: str) -> int:
    number = token.partition(" ")[0]
    return int(number) if number.isdecimal() else 0


def _read(file: Path) -> str:
    # It is opened by its name each time: that is when a network folder asks its server.
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


_names: dict[tuple[int, Path], str] = {}
"""(process id, home) to the name under which a process announced itself there (`store.presence`)."""


def known_as(home: Path, name: str) -> None:
    """Note the name under which this process is known to a home; none when it took it back."""
    if name:
        _names[os.getpid(), home] = name
    else:
        _names.pop((os.getpid(), home), None)


def own_name(home: Path) -> str:
    """Return the name under which this process is known to a home, empty when it announced nothing."""
    return _names.get((os.getpid(), home), "")


def is_struck_out(home: Path, name: str) -> bool:
    """Whether somebody who could tell took note that the process of a name is dead, or gone for good."""
    return bool(name) and not (home / "locks" / "processes" / name).exists()
