"""What files a folder shall hold, each with its size and SHA-256: by it a lost or altered file is told.

A manifest is a file of lines, one for every file that was put in place or removed; the last line of a name
counts. It is written after the file, so a line says what is on the disk. Readers take no lock unless a file
differs from its line: then they look again while nobody is putting files in place.

The lock beside it holds a line once the manifest is on the disk: by it a manifest that is gone is told from
one that was never begun.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from trace_assets.errors import InputError
from trace_assets.store.files import make_folder, replacing_file, sync_file, sync_folder
from trace_assets.store.leases import committing, confirm_all
from trace_assets.store.lines import append_lines, read_lines, sealed

MANIFEST = "manifest.jsonl"

ALTERED = "is not what was written: its content was altered, or it is another file"

ENDS = 1 << 16
"""Bytes at the beginning and the end of a file that are compared where the whole is too much: a Parquet
file's footer and a safetensors file's header are among them."""
_KEPT = "there is a manifest"
_COMPACT_BYTES = 1 << 18
"""Whenever a manifest has grown by so much, and most of its lines are outdated, it is written anew."""


@dataclass(frozen=True)
class Entry:
    """What a file was when it was put in place.

    Attributes:
        size: In bytes.
        sha256: Of the whole content.
        ends: SHA-256 of its first and last bytes; see `ENDS`.
    """

    size: int
    sha256: str
    ends: str

    @classmethod
    def of(cls, path: Path) -> Entry:
        """Read a file to its end."""
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            return cls(file.tell(), sha256, _ends(path))


def manifest_of(home: Path) -> Manifest:
    """Return the manifest of a home's folder: of its tables, models, descriptions and inbox of tasks."""
    return Manifest(home / MANIFEST, home)


_SAYS_NOTHING = {errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
"""Why a file could not be opened that may well be whole: it must not count as lost, and be made again."""


class _Line(msgspec.Struct, omit_defaults=True):
    name: str
    size: int = -1
    sha256: str = ""
    ends: str = ""


class Manifest:
    """The manifest of one folder.

    Args:
        file: Its file, beside the folder or in it; made with the first entry.
        root: The folder. Names are relative to it, with forward slashes; a file elsewhere has its absolute
            path for a name.
    """

    def __init__(self, file: Path, root: Path) -> None:
        self.file, self.root = file, root
        self._state: tuple[object, dict[str, Entry]] = (None, {})
        self._folders: tuple[object, dict[str, list[str]]] = (None, {})
        self._seen: dict[str, tuple[object, Entry]] = {}
        self._together = 0

    def entries(self) -> Mapping[str, Entry]:
        """Return the entry of every file that shall be there, by name.

        Raises:
            InputError: The manifest is gone, or something else lies in its place.
        """
        try:
            found = self.file.stat()
        except OSError:
            found = None
        if found is None or not stat.S_ISREG(found.st_mode):
            if said := self.lost():
                raise InputError(said)
            return {}
        key = (found.st_ino, found.st_size, found.st_mtime_ns)
        if self._state[0] != key:
            self._state = (key, _read(self.file))
        return self._state[1]

    def names_in(self, folder: Path) -> list[str]:
        """Return the names of the files that shall lie in a folder, those of folders in it left out."""
        known = self.entries()
        if self._folders[0] is not known:
            grouped: dict[str, list[str]] = {}
            for name in known:
                grouped.setdefault(name.rpartition("/")[0], []).append(name)
            self._folders = (known, grouped)
        return self._folders[1].get(self.name(folder), [])

    def lost(self) -> str:
        """Say so when there was a manifest and it is gone, or something else lies in its place."""
        try:
            wrong = "" if stat.S_ISREG(self.file.stat().st_mode) else "is no file"
        except FileNotFoundError:
            wrong = "is gone" if self._was_kept() else ""
        except OSError as error:
            wrong = f"cannot be looked at ({error.strerror})"
        if not wrong:
            return ""
        return (
            f"{self.file} {wrong}: it lists what {self.root} shall hold, so what is lost cannot be told. "
            "Put it back from a backup, or have `trace doctor --accept-losses` take the files that are there "
            "as they are."
        )

    def begin_anew(self) -> bool:
        """Take a manifest that is lost for one that was never begun; say whether it was lost.

        What lies in its place is moved beside it.
        """
        if not self.lost():
            return False
        with self._lock_held():
            if self.file.exists():
                self.file.rename(self.file.with_name(f"{self.file.name}.damaged-{uuid4().hex[:8]}"))
            os.truncate(self._lock, 0)
        return True

    def _was_kept(self) -> bool:
        try:
            return self._lock.stat().st_size > 0
        except OSError:
            return False

    def is_there(self) -> bool:
        """Whether there is a manifest: an earlier version of the program kept none."""
        return self.file.is_file()

    def name(self, path: Path) -> str:
        """Return the name of a file."""
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)

    def path(self, name: str) -> Path:
        """Return where the file of a name lies."""
        return self.root / name

    @contextmanager
    def placing(self, name: str, partial: Path) -> Iterator[None]:
        """Put a file in place in the body, and enter it.

        Raises:
            Superseded: It is of an item that was begun anew elsewhere.
        """
        entry = Entry.of(partial)
        with self._locked():
            yield
            # A process that was stopped just now: what has no entry is found and made again.
            confirm_all(self.root)
            self._append({name: entry})

    def note(self, entries: Mapping[str, Entry]) -> None:
        """Enter files that are in place."""
        if entries:
            with self._locked():
                self._append(entries)

    def note_files(self, paths: Iterable[Path]) -> dict[str, Entry]:
        """Enter files as they lie now; those whose entry says the same are only read.

        Returns:
            The entries of all of them.
        """
        found = {self.name(path): Entry.of(path) for path in paths}
        known = self.entries()
        self.note({name: entry for name, entry in found.items() if known.get(name) != entry})
        return found

    def build(self, paths: Iterable[Path]) -> None:
        """Enter the files of a folder that nobody else has seen yet."""
        lines = [_text(self.name(path), Entry.of(path)) for path in paths]
        append_lines(self.file, lines, sync=False)

    def note_unlisted(self, pattern: str, readable: Callable[[Path], bool] = lambda _: True) -> list[str]:
        """Enter the files below the root that have no entry, as they lie; return their names.

        Nobody puts a file in place meanwhile, so none is taken for one without an entry that is about to get
        one.

        Args:
            pattern: Which files, as for `Path.glob`.
            readable: Says of a file whether it is what its name says; what cannot be read is not entered.
        """
        if not self._unlisted(pattern):
            return []
        with self._locked():
            chosen = [name for name in self._unlisted(pattern) if readable(self.path(name))]
            found = {name: Entry.of(self.path(name)) for name in chosen}
            if found:
                self._append(found)
        return sorted(found)

    def _unlisted(self, pattern: str) -> list[str]:
        known = self.entries()
        names = (self.name(path) for path in self.root.glob(pattern) if path.is_file())
        return [name for name in names if name not in known and "/." not in f"/{name}"]

    @contextmanager
    def removing(self, names: Sequence[str]) -> Iterator[None]:
        """Remove files in the body, and strike their entries out."""
        with self._locked():
            yield
            known = self.entries()
            if struck := {name: None for name in names if name in known}:
                self._append(struck)

    def forget(self, names: Sequence[str]) -> None:
        """Strike entries out; what lies there is left alone."""
        with self.removing(names):
            pass

    @contextmanager
    def together(self) -> Iterator[None]:
        """Wait once, at the end of the body, until the entries of all that is written in it are on the disk.

        A file without its entry is taken as it is, so nothing is lost by that but the entries.
        """
        self._together += 1
        try:
            yield
        finally:
            self._together -= 1
        if self.file.exists():
            sync_file(self.file)
            sync_folder(self.file.parent)

    def altered_lines(self) -> int:
        """Return the number of its own lines that are not as they were written."""
        return len(read_lines(self.file).altered)

    def holds(self, name: str, content: bytes) -> bool:
        """Whether some content is that of a file, or of a file without an entry."""
        entry = self.entries().get(name)
        return entry is None or (
            entry.size == len(content) and entry.sha256 == hashlib.sha256(content).hexdigest()
        )

    def problem(self, name: str, whole: int | None = None) -> str:
        """Say what is wrong with a file, in words that follow its name; nothing when it is as it was.

        Args:
            name: Its name; one without an entry has nothing wrong with it.
            whole: Read a file of so many bytes to its end, and only the ends of a larger one; None reads
                every file to its end.
        """
        said = self._problem(name, whole)
        if not said:
            return ""
        with self.undisturbed():  # it may have been replaced between a look at the entry and one at the file
            return self._problem(name, whole)

    def problems(self, names: Iterable[str], budget: int | None = None) -> dict[str, str]:
        """Return what is wrong with files by name, for those with which something is.

        Args:
            names: The files to look at.
            budget: Bytes to read at most; the smallest files are read to their end, the others as far as it
                goes by size and ends. None reads all.
        """
        known = self.entries()
        chosen = sorted((known[name].size, name) for name in set(names) if name in known)
        found, left = {}, budget
        for size, name in chosen:
            if left is not None:
                left = max(0, left - size)
            if said := self.problem(name, None if left is None else size if left else -1):
                found[name] = said
        return found

    def unchanged(self, name: str, whole: int | None = None) -> str:
        """Say what is wrong with a file, see `problem`; one that nothing touches is read once a process."""
        try:
            found = self.path(name).stat()
        except OSError:  # it is gone, or its folder is a file or a link to itself
            return self.problem(name, whole)
        entry = self.entries().get(name)
        key = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        if entry is None or self._seen.get(name) == (key, entry):
            return ""
        said = self.problem(name, whole)
        if not said and (whole is None or found.st_size <= whole):
            self._seen[name] = (key, entry)
        return said

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Let nobody put a file in place meanwhile; where the folder cannot be written to, nobody can."""
        try:
            descriptor = os.open(self._lock, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            yield
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            yield
        finally:
            os.close(descriptor)

    def _problem(self, name: str, whole: int | None) -> str:
        entry, path = self.entries().get(name), self.path(name)
        if entry is None:
            return ""
        try:
            size = path.stat().st_size
            if size != entry.size:
                return f"has {size:,} bytes in place of {entry.size:,}"
            if whole is None or size <= whole:
                with path.open("rb") as file:
                    same = hashlib.file_digest(file, "sha256").hexdigest() == entry.sha256
            else:
                same = _ends(path) == entry.ends
        except FileNotFoundError:
            return "is gone"
        except OSError as error:
            if error.errno in _SAYS_NOTHING:
                raise InputError(
                    f"{path} cannot be read ({error.strerror}), so nothing is known of what it holds, and "
                    "nothing is made in its place: have it readable for whoever runs this command."
                ) from error
            return f"cannot be read ({error.strerror})"
        return "" if same else ALTERED

    @property
    def _lock(self) -> Path:
        return self.file.with_name(f"{self.file.name}.lock")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock_held():
            if said := self.lost():
                raise InputError(said)
            with committing(self.root):
                yield
            if not self._together and not self._was_kept() and self.file.exists():
                sync_folder(self.file.parent)
                append_lines(self._lock, [_KEPT])

    @contextmanager
    def _lock_held(self) -> Iterator[None]:
        make_folder(self.file.parent)
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _append(self, entries: Mapping[str, Entry | None]) -> None:
        before = self.file.stat().st_size if self.file.exists() else 0
        lines = [_text(name, entry) for name, entry in entries.items()]
        append_lines(self.file, lines, sync=not self._together)
        if self.file.stat().st_size // _COMPACT_BYTES > before // _COMPACT_BYTES:
            self._compact()

    def _compact(self) -> None:
        known = _read(self.file)
        if len(read_lines(self.file).whole) > 3 * len(known):
            with replacing_file(self.file) as partial:
                partial.write_bytes(b"".join(sealed(_text(name, one)) for name, one in known.items()))


def _read(file: Path) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for _, text in read_lines(file).whole:
        try:
            line = msgspec.json.decode(text, type=_Line)
        except msgspec.DecodeError:
            continue
        if line.size < 0:
            found.pop(line.name, None)
        else:
            found[line.name] = Entry(line.size, line.sha256, line.ends)
    return found


def _text(name: str, entry: Entry | None) -> str:
    values: dict[str, Any] = {} if entry is None else vars(entry)
    return msgspec.json.encode(_Line(name, **values)).decode()


def _ends(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.sha256(file.read(ENDS))
        size = os.fstat(file.fileno()).st_size
        if size > ENDS:
            file.seek(max(ENDS, size - ENDS))
            digest.update(file.read())
    return digest.hexdigest()[:16]
