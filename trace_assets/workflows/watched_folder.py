"""A folder that other programs put files into: which of them are complete, and what they hold."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from trace_assets.formats.batch_files import is_session
from trace_assets.records import ArrivalKind, Quarantined
from trace_assets.store.files import replacing_file
from trace_assets.study import Study
from trace_assets.workflows.task_files import Refused

UNFINISHED = (".tmp", ".part", ".partial", ".crdownload", ".swp", "~")
"""Endings under which other programs write what they will rename."""


_BLOCK = 1 << 20


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
        self._ahead: dict[Path, list[object]] = {}

    def ready(self) -> str:
        """Make the home's own folder if need be; return what is wrong with a named one, or nothing."""
        if not self._named:
            self.path.mkdir(parents=True, exist_ok=True)
        return "" if self.path.is_dir() else f"the watched folder {self.path} is not there; make it."

    def files(self) -> Iterator[FoundFile]:
        """Yield every file that is not hidden and not named as unfinished, whatever may be wrong with it."""
        paths = self._paths()
        # The age of what was touched in the future (by the clock of a file server, or before this one was set
        # back) is not known: it is whole when it stays as it is for so long.
        self._ahead = {path: state for path in paths if (state := self._touched_in_the_future(path))}
        if self._ahead:
            time.sleep(self._settle)
        for path in paths:
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
            self._new[found.name] = [*signature(found.path.stat()), found.digest]
        except OSError:
            return  # taken away in between

    def keep_in_mind(self, found: FoundFile) -> None:
        """Remember of a file that may still be growing what it was before: it may go on from there."""
        if found.name in self._old:
            self._new[found.name] = self._old[found.name]

    def begun(self, found: FoundFile, copy: Path, known: Collection[str]) -> int:
        """Return how many bytes of whole lines at a file's beginning were taken when it was shorter.

        Args:
            found: The file.
            copy: Where its content lies.
            known: SHA-256 of the contents that were taken of files of its name.
        """
        if not known or is_session(copy):  # a session's lines are one conversation
            return 0
        match self._old.get(found.name):
            case [int(size), *_, str(digest)] if digest in known:
                return max(_known_lines(copy, known), _lines_within(copy, size, digest))
        return _known_lines(copy, known)

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

    def _touched_in_the_future(self, path: Path) -> list[object]:
        """Return the signature of such a file where it is not remembered, else nothing."""
        try:
            state = path.stat()
        except OSError:
            return []
        remembered = self._old.get(FoundFile(path, None).name, [])
        ahead = state.st_ctime > time.time() and remembered[:-1] != signature(state)
        return signature(state) if ahead else []

    def _look(self, path: Path) -> FoundFile:
        state = path.stat()
        if state.st_size > shutil.disk_usage(self._memory.parent.parent).free:
            return FoundFile(path, None, "it is larger than the room that is left on the disk of the home.")
        name = FoundFile(path, None).name
        remembered = self._old.get(name)
        if remembered is not None and remembered[:-1] == signature(state):
            return FoundFile(path, str(remembered[-1]))
        # The change time is the kernel's: unlike the modification time, no program can set it back.
        young = time.time() - state.st_ctime < self._settle
        if young and self._ahead.get(path) != signature(state):
            return FoundFile(path, None)
        digest = file_digest(path)
        return FoundFile(path, digest if signature(path.stat()) == signature(state) else None)


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


def _known_lines(path: Path, known: Collection[str]) -> int:
    """Return how many bytes at the beginning are such a content, with the line end that follows it."""
    digest, at, taken = hashlib.sha256(), 0, 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):  # a line may be larger than the memory
            begin = 0
            while (end := block.find(b"\n", begin)) >= 0:
                for part in (block[begin:end], b"\n"):
                    digest.update(part)
                    if digest.hexdigest() in known:
                        taken = at + end + 1
                begin = end + 1
            digest.update(block[begin:])
            at += len(block)
    return taken


def _lines_within(path: Path, size: int, digest: str) -> int:
    """Return the whole lines, in bytes, of a beginning of so many bytes; none where it is another content."""
    found, taken, left = hashlib.sha256(), 0, size
    with path.open("rb") as file:
        while block := file.read(min(_BLOCK, left)):
            if b"\n" in block:
                taken = size - left + block.rindex(b"\n") + 1
            found.update(block)
            left -= len(block)
    return taken if found.hexdigest() == digest and not left else 0


def without_beginning(path: Path, size: int) -> bool:
    """Take so many bytes off a file's beginning; tell whether anything but blanks is left."""
    rest, filled = path.with_name(f"{path.name}.rest"), False
    with path.open("rb") as whole, rest.open("wb") as file:
        whole.seek(size)
        while block := whole.read(_BLOCK):
            filled = filled or bool(block.strip())
            file.write(block)
    rest.replace(path)
    return filled


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def signature(state: os.stat_result) -> list[object]:
    """Return what changes whenever a file is written to or replaced."""
    return [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino]


# Where files go that cannot be used: moved aside with the reason beside them, and a row in SQL.


def quarantine_folder(study: Study) -> Path:
    """Return the folder of what was put aside."""
    return study.home.path / "quarantine"


def quarantine_file(
    study: Study,
    kind: ArrivalKind,
    file: FoundFile,
    content_hash: str,
    reason: str,
    rows: Sequence[Refused] = (),
) -> list[Quarantined]:
    """Move a file aside with its reason; the same content again replaces what lies there.

    Args:
        study: Whose quarantine.
        kind: What the file was taken for.
        file: The file, where it lies now.
        content_hash: SHA-256 of its bytes.
        reason: Why, in one sentence.
        rows: What is wrong row by row, where that is known.
    """
    place = _place(study, content_hash, file.name)
    reason = reason.rstrip()
    _write(place.with_name(place.name + ".reason.txt"), "\n".join([reason, *_lines(rows)]) + "\n")
    _move(file.path, place)  # last: until then the next look finds it again
    return _record(study, kind, file.name, content_hash, place, [Refused("", "", reason), *rows])


def quarantine_rows(
    study: Study, kind: ArrivalKind, file: FoundFile, content_hash: str, rows: Sequence[Refused]
) -> list[Quarantined]:
    """Put rows of a file aside whose other rows are used; the file itself stays.

    Rows that have a text are written to a file of their own, to be corrected and dropped again.
    """
    place = _place(study, content_hash, f"{Path(file.name).stem}.refused{Path(file.name).suffix}")
    texts = [row.text for row in rows if row.text]
    if texts:
        _write(place, "\n".join(texts) + "\n")
    _write(place.with_name(place.name + ".reason.txt"), "\n".join(_lines(rows)) + "\n")
    return _record(study, kind, file.name, content_hash, place if texts else None, rows)


def _lines(rows: Sequence[Refused]) -> list[str]:
    return [f"{row.position}: {row.reason}" if row.position else row.reason for row in rows]


def _place(study: Study, content_hash: str, name: str) -> Path:
    folder = quarantine_folder(study)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{content_hash[:8]}-{re.sub(r'[^A-Za-z0-9._-]+', '-', name)[-80:]}"


def _move(path: Path, place: Path) -> None:
    """Move a file; of a link the link alone, so that it leads where it led."""
    if not path.is_symlink():
        shutil.move(path, place)
        return
    place.unlink(missing_ok=True)
    os.symlink(os.path.realpath(path), place)
    path.unlink()


def _write(path: Path, text: str) -> None:
    with replacing_file(path) as partial:
        partial.write_text(text, encoding="utf-8", errors="surrogatepass")


def _record(
    study: Study, kind: ArrivalKind, name: str, content_hash: str, place: Path | None, rows: Sequence[Refused]
) -> list[Quarantined]:
    now = datetime.now(UTC)
    made = {
        (row.position, row.reason): Quarantined(
            content_hash=content_hash,
            kind=kind,
            file=name,
            position=row.position,
            reason=row.reason,
            kept_at="" if place is None else f"{study.home.relative(place.parent)}/{place.name}",
            quarantined_at=now,
        )
        for row in rows
    }
    study.store.write(made.values(), Quarantined, content_hash[:16])
    return list(made.values())
