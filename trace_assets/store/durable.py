"""What a power cut does not take back: files and folders that are on the disk, not only in memory."""

from __future__ import annotations

import errno
import os
from pathlib import Path

_NOT_THERE_TO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EBADF}
"""What file systems answer that keep no folders of their own on a disk (some network and FUSE ones)."""


def sync_file(path: Path) -> None:
    """Wait until a file's content is on the disk."""
    _sync(path, os.O_RDONLY)


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk: what was made, renamed and removed there."""
    try:
        _sync(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        if error.errno not in _NOT_THERE_TO_SYNC:
            raise


def sync_tree(folder: Path) -> None:
    """Wait until all files and folders below a folder are on the disk, and the folder itself."""
    for place, _, files in os.walk(folder, topdown=False):
        for name in files:
            path = Path(place, name)
            if path.is_file() and not path.is_symlink():
                sync_file(path)
        sync_folder(Path(place))


def make_folder(path: Path) -> None:
    """Make a folder with those above it, and wait until their names are on the disk."""
    if path.is_dir():
        return
    missing = [path]
    while not missing[-1].parent.is_dir():
        missing.append(missing[-1].parent)
    path.mkdir(parents=True, exist_ok=True)
    for made in missing:
        sync_folder(made.parent)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
