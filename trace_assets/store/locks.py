"""Who works on what: locks that the operating system frees when their holder dies, however it dies."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from trace_assets.store.files import Home, make_folder, sync_file, sync_folder
from trace_assets.system.machine import this_machine

INTERRUPTED = "its last materialization was interrupted"


@dataclass(frozen=True)
class Holder:
    """Who holds a lock, or who held it last.

    Attributes:
        pid: Process id, as its own machine or container counts.
        host: Name of that machine.
        since: When it took the lock, ISO 8601 in UTC.
        what: What for.
        boot: Id of that machine's boot; empty where it is not known.
    """

    pid: int
    host: str
    since: str
    what: str
    boot: str = ""

    def __str__(self) -> str:
        return f"{self.what}, process {self.pid} on {self.host} since {self.since}"


def sync_lock(home: Home) -> Path:
    """Return the file that `trace sync` locks: one at a time works on a home."""
    return home.path / "sync.lock"


@contextmanager
def exclusive(
    path: Path,
    what: str,
    *,
    waiting: Callable[[Holder | None], None] = lambda _: None,
    patience: float | None = None,
) -> Iterator[None]:
    """Hold a lock file while the body runs; wait for it when somebody else does.

    The file stays where it is for ever: removing it would let two processes lock two files of one name.

    Args:
        path: The file; made when it is not there.
        what: What it is held for, for those who wait.
        waiting: Told once who is in the way, before the wait.
        patience: Seconds to wait at most; None waits as long as it takes.

    Raises:
        TimeoutError: It was not to be had in that time.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        if not _try(file.fileno(), fcntl.LOCK_EX):
            waiting(holder(path))
            _wait(file.fileno(), path, patience)
        file.seek(0)
        file.truncate()
        now = datetime.now(UTC).isoformat(timespec="seconds")
        here = this_machine()
        said = {"pid": os.getpid(), "host": here.host, "since": now, "what": what, "boot": here.boot}
        json.dump(said, file)
        file.flush()
        try:
            yield
        finally:
            file.seek(0)
            file.truncate()


def is_held(path: Path) -> bool:
    """Whether some process holds a lock file at this moment."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _try(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def holder(path: Path) -> Holder | None:
    """Return what the present or last holder of a lock file wrote into it, None when nothing is known."""
    try:
        return Holder(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


@dataclass(frozen=True)
class ItemLock:
    """The right to materialize one item.

    Attributes:
        marks: Files that say that the item is due; they are there until `settle`.
    """

    marks: tuple[Path, ...]

    def settle(self) -> None:
        """Say that the materialization is recorded: what made the item due is done with."""
        for mark in self.marks:
            mark.unlink(missing_ok=True)
        for folder in {mark.parent for mark in self.marks}:
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
    with exclusive(_folder(home, "items") / f"{name}.lock", name, waiting=waiting, patience=patience):
        found = tuple(mark for mark in _marks(home) if _item_of(mark) == name)
        yield ItemLock((*found, mark_due(home, asset, partition, INTERRUPTED, by)))


def is_item_held(home: Home, asset: str, partition: str = "") -> bool:
    """Whether some process is making an item at this moment."""
    return is_held(_folder(home, "items") / f"{_name(asset, partition)}.lock")


def mark_due(home: Home, asset: str, partition: str, reason: str, by: str = "") -> Path:
    """Say that an item has to be made again, for a reason that Dagster cannot see; it outlives this process.

    Args:
        home: The home.
        asset: Asset name.
        partition: Partition key, empty when the asset has none.
        reason: Why, for those who ask what is due.
        by: Id of the run that lays the mark, where one does.

    Returns:
        The mark. The next materialization that begins after this removes it.
    """
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
    for mark in _marks(home):
        name = _item_of(mark)
        if not is_held(_folder(home, "items") / f"{name}.lock"):
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


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait(descriptor: int, path: Path, patience: float | None) -> None:
    if patience is None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return
    give_up = time.monotonic() + patience
    while not _try(descriptor, fcntl.LOCK_EX):
        if time.monotonic() > give_up:
            raise TimeoutError(f"{path} was held for more than {patience:g} s by {holder(path) or 'another'}")
        time.sleep(0.05)
