"""A scratch folder that is locked while its maker lives, and removed however that one ends."""

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
def held_folder(parent: Path) -> Iterator[Path]:
    """Open an empty folder, locked (`flock`) until the end of the body or of this process.

    By the lock whoever comes later tells it from what the dead left, and a training learns that its step is
    gone; also across containers, where process numbers say nothing.

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
