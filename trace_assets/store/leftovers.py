"""What killed processes leave lying about in a home, and its removal."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from trace_assets.store.home import Home
from trace_assets.store.presence import living

_HALF = re.compile(r".+\.(partial|old)|\.(ingest|watch)-.+")
"""Names of files and folders that exist only while something is being put in place."""
_SPARED = re.compile(r"\..+\.work|\.training|dagster|locks")
"""Folders that are not looked into: training that is under way, to be resumed; other people's formats."""


def half_made(home: Home, spare_seconds: float = 0.0) -> list[Path]:
    """Return the half-made files and folders whose writer is dead.

    The writer lives, perhaps, when a process at work on the home announced itself before they were last
    touched: then they are left alone until a later look.

    Args:
        home: The home.
        spare_seconds: What was touched so short a time ago is left alone too, for the sake of a writer that
            did not announce itself.
    """
    oldest = min([time.time() - spare_seconds, *living(home).values()])
    return [path for path in _half_made(home.path) if _touched(path) < oldest]


def clear_half_made(home: Home, spare_seconds: float = 0.0) -> list[Path]:
    """Remove what `half_made` finds; a folder that was on its way out comes back when nothing took its place.

    Returns:
        What was there.
    """
    found = half_made(home, spare_seconds)
    for path in found:
        if path.name.endswith(".old"):
            target = path.with_name(path.name.removeprefix(".").rsplit(".", 2)[0])
            with suppress(OSError):  # somebody else was faster
                if not target.exists():
                    os.rename(path, target)
                    continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return found


def unfinished_work(home: Home) -> dict[Path, int]:
    """Return what interrupted work keeps for its resumption: training and played episodes, with its bytes."""
    kept = [
        *home.models.glob("adapters/.*.work"),
        *home.models.glob("base/.training/*"),
        *home.journals.glob("rollouts/*"),
    ]
    sizes = {path: sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) for path in kept}
    return {path: size for path, size in sizes.items() if size}


def _half_made(folder: Path) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda one: one.name):
            if _HALF.fullmatch(entry.name):
                yield Path(entry.path)
            elif entry.is_dir(follow_symlinks=False) and not _SPARED.fullmatch(entry.name):
                with suppress(FileNotFoundError):
                    yield from _half_made(Path(entry.path))


def _touched(path: Path) -> float:
    """Return when a file, or anything in a folder, was last written or moved; now, when it is gone."""
    times = [path, *path.rglob("*")] if path.is_dir() else [path]
    try:
        return max(one.stat().st_ctime for one in times)
    except FileNotFoundError:
        return time.time()
