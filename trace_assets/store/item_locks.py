"""Who makes which item, and which items are due for a reason that Dagster cannot see.

Where the home has a database (`store.database`), both are rows there, freed by its server.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from trace_assets.store import shared_rows
from trace_assets.store.database import database_of
from trace_assets.store.files import Home, make_folder, sync_file, sync_folder
from trace_assets.store.leases import (
    Lease,
    RowLease,
    begin,
    confirm_all,
    holding,
    is_struck_out,
    own_name,
    refuse,
)
from trace_assets.store.locks import Holder, exclusive, holder, is_held, own_words, sign, try_lock

INTERRUPTED = "its last materialization was interrupted"
REPLACING_SECONDS = 1.0
"""How long one waits for another who replaces a lost item's lock: that takes no time."""


@dataclass(frozen=True)
class ItemLock:
    """The right to materialize one item.

    Attributes:
        marks: What says that the item is due, files or names of rows; they are there until `settle`.
        lease: Which beginning of the item this is.
    """

    marks: tuple[Path | str, ...]
    lease: Lease

    def settle(self) -> None:
        """Say that the materialization is recorded: what made the item due is done with.

        Raises:
            Superseded: The item was begun anew elsewhere: it is due until that is recorded.
        """
        if isinstance(self.lease, RowLease):
            names = [str(mark) for mark in self.marks]
            refuse(shared_rows.settle(self.lease.database, self.lease.taken, names))
            return
        self.lease.confirm()
        files = [mark for mark in self.marks if isinstance(mark, Path)]
        for mark in files:
            mark.unlink(missing_ok=True)
        for folder in {mark.parent for mark in files}:
            sync_folder(folder)  # or a power cut would bring back that it was due


@contextmanager
def item_lock(
    home: Home,
    asset: str,
    partition: str = "",
    *,
    waiting: Callable[[Holder | None], None] = lambda _: None,
    patience: float | None = None,
    by: str = "",
) -> Iterator[ItemLock]:
    """Hold an item while it is being made, and leave a mark if it is not made to the end.

    Two processes never write the tables of one item at once. From here to `ItemLock.settle` a mark lies in
    the home: whoever finds it without a holder knows that the tables may be newer than what is recorded.

    A holder that was struck out of the processes at work, by a cluster that lost its node, say, is not waited
    for: it may be stopped, or cut off, and keep its lock for ever. Its lease is over then (`store.leases`).

    Args:
        home: The home.
        asset: Asset name, such as `config/labels`.
        partition: Partition key, empty when the asset has none.
        waiting: Told once who is in the way.
        patience: Seconds to wait at most; None waits as long as it takes.
        by: Id of the run that makes it, by which `settle_recorded` finds the mark again.

    Raises:
        TimeoutError: Somebody else works on it for longer than that.
    """
    name = _name(asset, partition)
    with _item_held(home, name, waiting, patience) as lease, holding(home.path, lease):
        found: tuple[Path | str, ...]
        if isinstance(lease, RowLease):
            found = tuple(one.mark for one in shared_rows.marks(lease.database) if one.item == name)
        else:
            found = tuple(mark for mark in _marks(home) if _item_of(mark) == name)
        yield ItemLock((*found, mark_due(home, asset, partition, INTERRUPTED, by)), lease)


@contextmanager
def _item_held(
    home: Home, name: str, waiting: Callable[[Holder | None], None], patience: float | None
) -> Iterator[Lease]:
    path = _item_file(home, name)
    if (database := database_of(home.path)) is not None:

        def who() -> dict[str, Any]:
            confirm_all(home.path)
            return own_words(name, own_name(home.path))

        tell = lambda other: waiting(Holder.read(other))  # noqa: E731
        with shared_rows.held(database, name, who, tell, patience) as taken:
            yield RowLease(database, taken)
        return
    make_folder(path.parent)
    give_up = float("inf") if patience is None else time.monotonic() + patience
    told = False
    while True:
        with path.open("a+", encoding="utf-8") as file:
            if try_lock(file.fileno(), fcntl.LOCK_EX):
                if (lease := _begun(home, name, file)) is not None:
                    try:
                        yield lease
                    finally:
                        file.seek(0)
                        file.truncate()
                    return
            elif _was_struck_out(home, path):
                _replace_lock(home, path, file)
            else:
                if not told:
                    waiting(holder(path))
                    told = True
                if time.monotonic() > give_up:
                    raise TimeoutError(
                        f"{path} was held for more than {patience:g} s by {holder(path) or 'another'}"
                    )
                time.sleep(0.05)


def _begun(home: Home, name: str, file: IO[str]) -> Lease | None:
    """Begin an item under its locked file; None when another file lies in that one's place by now."""
    if not _lies_at(file, _item_file(home, name)):
        return None
    confirm_all(home.path)  # who has lost one item has no business with others
    lease = begin(home.path, name)
    sign(file, name, own_name(home.path))
    return lease


def _replace_lock(home: Home, path: Path, file: IO[str]) -> None:
    """Lay a new file in the place of one whose holder was struck out and does not let go of it.

    Should somebody just have come to hold the old one after all, or another new one, both begin the item: of
    the two leases the later counts. So whoever is stopped in here keeps nobody from going on.
    """
    with ExitStack() as stack:
        with suppress(TimeoutError):
            turn = exclusive(_folder(home, "replacing.lock"), "replacing a lock", patience=REPLACING_SECONDS)
            stack.enter_context(turn)
        if _lies_at(file, path):
            new = path.with_name(f".{path.name}.{uuid4().hex[:8]}.new")
            new.touch()
            os.replace(new, path)


def _lies_at(file: IO[str], path: Path) -> bool:
    """Whether an open file is still the one of its name."""
    mine = os.fstat(file.fileno())
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)


def _was_struck_out(home: Home, path: Path) -> bool:
    return (found := holder(path)) is not None and is_struck_out(home.path, found.name)


def _item_file(home: Home, name: str) -> Path:
    return _folder(home, "items") / f"{name}.lock"


def item_holder(home: Home, asset: str, partition: str = "") -> Holder | None:
    """Return who makes an item, or made it last and never let go; None when nothing is known."""
    name = _name(asset, partition)
    if (database := database_of(home.path)) is not None:
        return Holder.read(shared_rows.holder_of(database, name))
    return holder(_item_file(home, name))


def is_item_held(home: Home, asset: str, partition: str = "") -> bool:
    """Whether some process is making an item at this moment."""
    return _is_made_now(home, _name(asset, partition))


def _is_made_now(home: Home, name: str) -> bool:
    if (database := database_of(home.path)) is not None:
        return shared_rows.is_taken(database, name)
    path = _item_file(home, name)
    return is_held(path) and not _was_struck_out(home, path)


def mark_due(home: Home, asset: str, partition: str, reason: str, by: str = "") -> Path | str:
    """Say that an item has to be made again, for a reason that Dagster cannot see; it outlives this process.

    Args:
        home: The home.
        asset: Asset name.
        partition: Partition key, empty when the asset has none.
        reason: Why, for those who ask what is due.
        by: Id of the run that lays the mark, where one does.

    Returns:
        The mark, its file or its name. The next materialization that begins after this removes it.
    """
    if (database := database_of(home.path)) is not None:
        name = _name(asset, partition)
        row = f"{name}.{_short(by) or uuid4().hex[:12]}"
        shared_rows.lay_mark(database, row, name, reason, _short(by))
        return row
    folder = _folder(home, "due")
    make_folder(folder)
    mark = folder / f"{_name(asset, partition)}.{_short(by) or uuid4().hex[:12]}.due"
    mark.write_text(reason, encoding="utf-8")
    sync_file(mark)
    sync_folder(folder)
    return mark


def due_items(home: Home) -> dict[tuple[str, str], str]:
    """Return the items that are marked as due and that nobody works on now.

    Returns:
        (asset, partition) to the reason.
    """
    found: dict[tuple[str, str], str] = {}
    if (database := database_of(home.path)) is not None:
        laid = shared_rows.marks(database)
        taken = shared_rows.taken_items(database) if laid else set()
        return {_parts(one.item): one.reason or INTERRUPTED for one in laid if one.item not in taken}
    for mark in _marks(home):
        name = _item_of(mark)
        if not _is_made_now(home, name):
            with suppress(FileNotFoundError):
                found[_parts(name)] = mark.read_text(encoding="utf-8") or INTERRUPTED
    return found


def settle_recorded(home: Home, run: str, recorded: Callable[[str, str], bool]) -> None:
    """Remove the marks of a dead run from the items whose materialization it recorded before it died.

    What made such an item due is done with: made again, it would be booked twice.

    Args:
        home: The home.
        run: Id of the run, which is over.
        recorded: Tells of an asset and a partition whether the run's materialization is recorded.
    """
    if (database := database_of(home.path)) is not None:
        there = shared_rows.marks(database)
        for mine in there:
            if mine.run == _short(run) and recorded(*_parts(mine.item)):
                done = [one.mark for one in there if one.item == mine.item and one.laid <= mine.laid]
                shared_rows.drop_marks(database, done)
        return
    for own in _marks(home):
        if own.name.rsplit(".", 2)[1] != _short(run) or not recorded(*_parts(_item_of(own))):
            continue
        laid = _laid(own)
        for mark in _marks(home):  # also the earlier ones that it found; later ones are news
            if _item_of(mark) == _item_of(own) and _laid(mark) <= laid:
                mark.unlink(missing_ok=True)


def _laid(mark: Path) -> int:
    """Return when a mark was laid, in nanoseconds; 0 when somebody else has removed it meanwhile."""
    try:
        return mark.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _short(run: str) -> str:
    return run.replace("-", "")[:12]


def _parts(name: str) -> tuple[str, str]:
    """Return the asset and the partition of an item's name."""
    asset, _, partition = name.replace("~", "/").partition("@")
    return asset, partition


def _folder(home: Home, kind: str) -> Path:
    return home.path / "locks" / kind


def _name(asset: str, partition: str) -> str:
    return asset.replace("/", "~") + (f"@{partition}" if partition else "")


def _marks(home: Home) -> list[Path]:
    return sorted(_folder(home, "due").glob("*.due"))


def _item_of(mark: Path) -> str:
    """Return the item's name in a mark's name; a partition may hold dots, what follows it does not."""
    return mark.name.rsplit(".", 2)[0]
