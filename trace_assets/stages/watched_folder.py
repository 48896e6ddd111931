"""A folder that other programs put files into: which of them are complete, and what they hold."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trace_assets.records import ArrivalKind
from trace_assets.store.home import replacing_file
from trace_assets.study import Study

UNFINISHED = (".tmp", ".part", ".partial", ".crdownload", ".swp", "~")
"""Endings under which other programs write what they will rename."""


@dataclass(frozen=True)
class FoundFile:
    """A file in a watched folder.

    Attributes:
        path: Where it lies.
        digest: SHA-256 of its content, None while it may still be growing or when it cannot be read.
        problem: Why it cannot be read, empty when it can.
    """

    path: Path
    digest: str | None
    problem: str = ""

    @property
    def name(self) -> str:
        """The file's name as text that can be stored, whatever bytes it has."""
        return self.path.name.encode("utf-8", "replace").decode()


class WatchedFolder:
    """Files of one kind, the oldest first. A file that was read before and was not touched is not read again.

    Args:
        study: Whose folder.
        kind: Which of them.
    """

    def __init__(self, study: Study, kind: ArrivalKind) -> None:
        self._named: str = getattr(study.settings.watch, kind)
        home = study.home.path
        self.path = home / Path(self._named).expanduser() if self._named else home / "watch" / kind
        self._settle = study.settings.watch.settle_seconds
        self._memory = home / "watch_seen" / f"{kind}.json"
        try:
            self._old: dict[str, list[object]] = json.loads(self._memory.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # it only saves time
            self._old = {}
        self._new: dict[str, list[object]] = {}

    def ready(self) -> str:
        """Make the home's own folder if need be; return what is wrong with a named one, or nothing."""
        if not self._named:
            self.path.mkdir(parents=True, exist_ok=True)
        return "" if self.path.is_dir() else f"the watched folder {self.path} is not there; make it."

    def files(self) -> Iterator[FoundFile]:
        """Yield every file that is not hidden and not named as unfinished, whatever may be wrong with it."""
        for path in self._paths():
            try:
                yield self._look(path)
            except FileNotFoundError:
                continue  # taken away in between
            except OSError as error:
                reason = error.strerror or type(error).__name__
                mend = "take it away" if error.errno == errno.ELOOP else "check its permissions"
                yield FoundFile(path, None, f"it cannot be read ({reason}); {mend}.")

    def remember(self, found: FoundFile) -> None:
        """Do not read this file again while nothing touches it."""
        try:
            self._new[found.name] = [*_signature(found.path.stat()), found.digest]
        except OSError:
            return  # taken away in between

    def save(self) -> None:
        """Keep what is to be remembered for the next look."""
        if self._new == self._old:
            return
        self._memory.parent.mkdir(exist_ok=True)
        with replacing_file(self._memory) as partial:
            partial.write_text(json.dumps(self._new), encoding="utf-8")

    def _paths(self) -> list[Path]:
        if not self.path.is_dir():
            return []
        entries = [
            entry
            for entry in os.scandir(self.path)
            if not entry.name.startswith((".", "~")) and not entry.name.endswith(UNFINISHED)
        ]
        return [self.path / name for _, name in sorted(_since(entry) for entry in entries if _may_be(entry))]

    def _look(self, path: Path) -> FoundFile:
        state = path.stat()
        if state.st_size > shutil.disk_usage(self._memory.parent.parent).free:
            return FoundFile(path, None, "it is larger than the room that is left on the disk of the home.")
        name = FoundFile(path, None).name
        remembered = self._old.get(name)
        if remembered is not None and remembered[:-1] == _signature(state):
            return FoundFile(path, str(remembered[-1]))
        # The change time is the kernel's: unlike the modification time, no program can set it back.
        if time.time() - state.st_ctime < self._settle:
            return FoundFile(path, None)
        digest = file_digest(path)
        return FoundFile(path, digest if _signature(path.stat()) == _signature(state) else None)


def _may_be(entry: os.DirEntry[str]) -> bool:
    """Tell whether an entry is a file, or a link that must be looked at to know."""
    try:
        return entry.is_file()
    except OSError:  # a link to itself, a share that is gone
        return True


def _since(entry: os.DirEntry[str]) -> tuple[int, str]:
    try:
        return entry.stat().st_ctime_ns, entry.name
    except OSError:
        return 0, entry.name


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _signature(state: os.stat_result) -> list[object]:
    return [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino]
