"""Which processes work on a home: each keeps a lock of its own as long as it lives, and not a moment longer.

A process id says little: it is used again, and means nothing in another container. A lock is freed by the
kernel at the very end of its holder, whoever looks at it from wherever.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from uuid import uuid4

from trace_assets.store.home import Home
from trace_assets.store.locks import is_held

_own: dict[tuple[int, Path], tuple[str, int]] = {}
"""(process id, home) to name and descriptor: kept open until the process ends."""


def announce(home: Home) -> str:
    """Let it be seen that this process works on a home, until it ends.

    Call before anything is written that a killed process would leave half done. Calling again costs nothing.

    Returns:
        The name under which it is known there.
    """
    mine = (os.getpid(), home.path)  # a forked child is somebody else
    if mine not in _own:
        folder = _folder(home)
        folder.mkdir(parents=True, exist_ok=True)
        name = uuid4().hex
        building = folder / f".{name}.new"
        descriptor = os.open(building, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o644)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, str(os.getpid()).encode())
        os.rename(building, folder / name)  # it is never seen without its lock
        _own[mine] = (name, descriptor)
    return _own[mine][0]


def is_alive(home: Home, name: str) -> bool:
    """Whether the process of that name still lives."""
    return is_held(_folder(home) / name)


def living(home: Home) -> dict[str, float]:
    """Return the processes at work on a home by name, with the time at which each announced itself (Unix)."""
    found = {}
    for path in _folder(home).glob("[0-9a-f]*"):
        if is_held(path):
            found[path.name] = _time(path)
    return found


def forget_dead(home: Home) -> list[str]:
    """Remove what dead processes left here.

    Returns:
        Their names.
    """
    gone = [path for path in _folder(home).glob("[0-9a-f]*") if not is_held(path)]
    long_ago = time.time() - 60  # a younger one may not have its lock yet
    unborn = [path for path in _folder(home).glob(".*.new") if _time(path) < long_ago and not is_held(path)]
    for path in (*gone, *unborn):
        path.unlink(missing_ok=True)
    return [path.name for path in gone]


def _time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return time.time()


def _folder(home: Home) -> Path:
    return home.path / "locks" / "processes"
