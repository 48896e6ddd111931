"""A scratch folder that this process shares with a container, removed however this process ends."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "trace-t-"
_YOUNG_SECONDS = 60.0


@contextmanager
def shared_folder(parent: Path = Path("/tmp")) -> Iterator[Path]:
    """Open an empty folder with a short path, for sockets are made in it.

    It is locked while this process lives, so that whoever comes later can tell it from what the dead left,
    also across containers, where process numbers say nothing.

    Args:
        parent: Where it lies.

    Yields:
        The folder; it is removed with the body.
    """
    sweep(parent)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def sweep(parent: Path) -> None:
    """Remove this user's folders that nobody holds; new ones are left alone, their makers may be about to."""
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            stat = folder.lstat()
            if stat.st_uid != os.geteuid() or time.time() - stat.st_mtime < _YOUNG_SECONDS:
                continue
            held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(held)
