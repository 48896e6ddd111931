"""Who works on what: locks that the operating system frees when their holder dies, however it dies.

Where the home has a database (`store.database`), commands are rows there, freed by its server.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from trace_assets.store import shared_rows
from trace_assets.store.database import database_around
from trace_assets.store.files import Home
from trace_assets.system.machine import this_machine


@dataclass(frozen=True)
class Holder:
    """Who holds a lock, or who held it last.

    Attributes:
        pid: Process id, as its own machine or container counts.
        host: Name of that machine.
        since: When it took the lock, ISO 8601 in UTC.
        what: What for.
        boot: Id of that machine's boot; empty where it is not known.
        name: Under which it announced itself to the home (`store.presence`); empty where it did not.
    """

    pid: int
    host: str
    since: str
    what: str
    boot: str = ""
    name: str = ""

    def __str__(self) -> str:
        return f"{self.what}, process {self.pid} on {self.host} since {self.since}"

    @classmethod
    def read(cls, said: object) -> Holder | None:
        """Return what somebody wrote of itself; None when it is none of that."""
        try:
            return cls(**said)  # type: ignore[arg-type]
        except TypeError:
            return None


def sync_lock(home: Home) -> Path:
    """Return the file that `trace sync` locks: one at a time works on a home."""
    return home.path / "sync.lock"


_waits: dict[object, tuple[float, Callable[[], object]]] = {}
"""What this process waits for: since when, and who holds it."""


@contextmanager
def waits_for(who: Callable[[], object]) -> Iterator[None]:
    """Let `waiting_words` say, while the body runs, for whom this process waits."""
    key = object()
    _waits[key] = (time.monotonic(), who)
    try:
        yield
    finally:
        del _waits[key]


def waiting_words() -> str:
    """Return for whom this process waits, and how long by now; nothing where it does not wait."""
    found = sorted(list(_waits.values()), key=lambda one: one[0])
    if not found:
        return ""
    since, who = found[0]
    return f"waiting since {time.monotonic() - since:.0f} s for {who() or 'another process'}"


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
    if (found := database_around(path)) is not None:
        said = own_words(what, "")
        tell = lambda other: waiting(Holder.read(other))  # noqa: E731
        with shared_rows.held(*found, lambda: said, tell, patience):
            yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        if not try_lock(file.fileno(), fcntl.LOCK_EX):
            waiting(holder(path))
            with waits_for(lambda: holder(path)):
                _wait(file.fileno(), path, patience)
        sign(file, what)
        try:
            yield
        finally:
            file.seek(0)
            file.truncate()


def sign(file: IO[str], what: str, name: str = "") -> None:
    """Write into a lock file who holds it."""
    file.seek(0)
    file.truncate()
    json.dump(own_words(what, name), file)
    file.flush()


def own_words(what: str, name: str) -> dict[str, Any]:
    """Return what this process writes of itself as a holder."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    here = this_machine()
    said = {"pid": os.getpid(), "host": here.host, "since": now, "what": what, "boot": here.boot}
    return {**said, **({"name": name} if name else {})}


def is_held(path: Path) -> bool:
    """Whether some process holds a lock file at this moment."""
    if (found := database_around(path)) is not None:
        return shared_rows.is_taken(*found)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not try_lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def holder(path: Path) -> Holder | None:
    """Return what the present or last holder of a lock file wrote into it, None when nothing is known."""
    if (found := database_around(path)) is not None:
        return Holder.read(shared_rows.holder_of(*found))
    try:
        return Holder.read(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None


def try_lock(descriptor: int, kind: int) -> bool:
    """Lock an open file without waiting; tell whether that went."""
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
    while not try_lock(descriptor, fcntl.LOCK_EX):
        if time.monotonic() > give_up:
            raise TimeoutError(f"{path} was held for more than {patience:g} s by {holder(path) or 'another'}")
        time.sleep(0.05)
