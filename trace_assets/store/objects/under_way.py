"""What is under way on a home in a bucket is sent while it is worked on: journals, paid answers, checkpoints.

The home itself is sent only while nothing is being made. The list of what is under way stands beside it in
`home.json`; whoever takes the home up after its worker was lost lays it over what was sent last. A journal
goes up in segments: of a file that only grows, what came since the last sending.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from trace_assets.store.files import make_folder, replace_folder, replacing_file
from trace_assets.store.objects.bucket import SMALL_BYTES
from trace_assets.store.objects.download import THREADS, fetch, require_names
from trace_assets.store.objects.remote import Content, Piece, RemoteHome, State, Stored, held
from trace_assets.store.objects.upload import send_file
from trace_assets.store.unfinished import files_of_run_directory, journals, paid_answers, run_directories

SEGMENTS = 64
"""After so many segments of a journal the small ones at its end are sent again as one."""
COPIED_BYTES = 1 << 20
"""Files of a run directory up to this size are copied, larger ones linked: only small ones grow."""
TRIES = 3
"""How often a moment is sought in which a run directory is not written to."""

Parts = tuple[Content, ...]


class Stopped(Exception):
    """The command ends: what is sent then is the home itself."""


class UnderWay:
    """Sends what is under way in a folder that is worked on.

    Args:
        remote: The home.
        folder: Where it is worked on.
        worker: What that folder is known by.
        is_over: Whether the command that works there ends.
    """

    def __init__(
        self, remote: RemoteHome, folder: Path, worker: str, is_over: Callable[[], bool] = lambda: False
    ) -> None:
        self._remote, self._folder, self._worker, self._is_over = remote, folder, worker, is_over
        self._commit = ""
        self._sent: dict[str, Content] = {}
        self._hashes: dict[tuple[int, ...], str] = {}
        self._grown: dict[str, tuple[tuple[int, int], Parts]] = {}
        self._home: tuple[str, dict[str, Stored]] = ("", {})

    def send(self) -> int:
        """Send what is new; return how many bytes that were.

        Of what is gone here, its result being in place, the last that was sent stays until the home is sent.

        Raises:
            Overtaken: Others wrote there meanwhile.
            Unavailable: The store does not answer.
            InputError: A file was altered while it was sent.
            Stopped: The command ends.
        """
        state = self._remote.state()
        if state.pointer.worker != self._worker:
            return 0  # it was given free; the command hears of it when it sends the home
        if state.pointer.commit != self._commit:
            self._sent.clear()  # what nothing names may have been cleaned away
        self._commit = state.pointer.commit
        before = self._remote.under_way(state)
        there = {one.sha256: one for one in (c for piece in before.values() for c in piece.parts)}
        there |= {one.content.sha256: one.content for one in self._files(state).values()} | self._sent
        sending = _Sending(self._remote, there, self._sent, self._is_over)
        now = dict(before)
        with tempfile.TemporaryDirectory(
            prefix=f".{self._folder.name}.", suffix=".sending", dir=self._folder.parent
        ) as scratch:
            for path in (*journals(self._folder), *paid_answers(self._folder)):
                self._take_loose(path, state, now, sending)
            for number, run_directory in enumerate(run_directories(self._folder)):
                self._take_run_directory(run_directory, Path(scratch, str(number)), state, now, sending)
        if now == before and state.pointer.under_way_of == self._worker:
            return sending.size
        if not now and state.pointer.under_way is None:
            return sending.size
        new = msgspec.structs.replace(
            held(state, self._worker),
            under_way=self._remote.send_list(now[name] for name in sorted(now)) if now else None,
            under_way_of=self._worker,
        )
        self._commit = self._remote.commit(state, new).pointer.commit
        return sending.size

    def _files(self, state: State) -> dict[str, Stored]:
        """Return the files of the home as it was sent last; its list is fetched once."""
        key = state.pointer.files.key if state.pointer.files else ""
        if key != self._home[0]:
            self._home = (key, self._remote.files(state))
        return self._home[1]

    def _take_loose(self, path: Path, state: State, now: dict[str, Piece], sending: _Sending) -> None:
        name = path.relative_to(self._folder).as_posix()
        stored = self._files(state).get(name)
        with suppress(FileNotFoundError):
            about = path.stat()
            known = now[name].parts if name in now else (stored.content,) if stored else ()
            if path.suffix == ".jsonl":
                parts = self._segments(path, name, known, sending)
            else:
                sha256 = self._hash(path, about)
                whole = len(known) == 1 and known[0].sha256 == sha256
                parts = known if whole else (sending.file(path, sha256, about.st_size),)
            if stored is not None and parts == (stored.content,):
                now.pop(name, None)
            elif parts:
                now[name] = Piece(name, parts, stat.S_IMODE(about.st_mode))

    def _segments(self, path: Path, name: str, known: Parts, sending: _Sending) -> Parts:
        """Send the whole lines that came since; return all segments of a file."""
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            here, end = (about.st_dev, about.st_ino), sum(one.size for one in known[:-1])
            # An inode may be that of a file that was removed: so the last segment is compared each time.
            seen = self._grown.get(name) == (here, known)
            if not _holds(path, known[-1:], end) or not (seen or _holds(path, known[:-1])):
                known = ()
            if len(known) > SEGMENTS:
                large = [one.size >= SMALL_BYTES // 2 for one in known]
                known = known[: large.index(False) if False in large else len(known)]
            parts = list(known)
            file.seek(sum(one.size for one in known))
            while chunk := file.read(SMALL_BYTES):
                if len(chunk) < SMALL_BYTES:  # the last line may be half written
                    chunk = chunk[: chunk.rfind(b"\n") + 1]
                if not chunk:
                    break
                parts.append(sending.bytes(chunk))
        self._grown[name] = (here, tuple(parts))
        return tuple(parts)

    def _take_run_directory(
        self, run_directory: Path, scratch: Path, state: State, now: dict[str, Piece], sending: _Sending
    ) -> None:
        """Send a run directory as it is at one moment; while none is found, what was sent of it stays."""
        moment = _moment(run_directory, scratch)
        if moment is None:
            return
        whole = run_directory.relative_to(self._folder).as_posix()
        found: dict[str, Piece] = {}
        for inside, path in moment.items():
            about = path.stat()
            content = sending.file(path, self._hash(path, about), about.st_size)
            name = f"{whole}/{inside}"
            found[name] = Piece(name, (content,), stat.S_IMODE(about.st_mode), whole)
        for name in [name for name, piece in now.items() if piece.whole == whole]:
            del now[name]
        stored = {name: one for name, one in self._files(state).items() if name.startswith(f"{whole}/")}
        if {name: piece.parts for name, piece in found.items()} != {
            name: (one.content,) for name, one in stored.items()
        }:
            now |= found

    def _hash(self, path: Path, about: os.stat_result) -> str:
        key = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns)
        if key not in self._hashes:
            with path.open("rb") as file:
                self._hashes[key] = hashlib.file_digest(file, "sha256").hexdigest()
        return self._hashes[key]


class _Sending:
    """Contents that are there, and those that are sent now."""

    def __init__(
        self,
        remote: RemoteHome,
        there: dict[str, Content],
        sent: dict[str, Content],
        is_over: Callable[[], bool],
    ) -> None:
        self._remote, self._there, self._sent, self._is_over = remote, there, sent, is_over
        self.size = 0

    def file(self, path: Path, sha256: str, size: int) -> Content:
        """Have a file's content there."""
        return self._have(sha256, size, lambda content: send_file(self._remote, content, path))

    def bytes(self, text: bytes) -> Content:
        """Have some bytes there."""
        sha256 = hashlib.sha256(text).hexdigest()
        return self._have(sha256, len(text), lambda content: self._remote.bucket.put(content.key, text))

    def _have(self, sha256: str, size: int, send: Callable[[Content], object]) -> Content:
        if sha256 not in self._there:
            if self._is_over():
                raise Stopped
            content = self._remote.new_content(sha256, size)
            send(content)
            self.size += size
            self._there[sha256] = self._sent[sha256] = content
        return self._there[sha256]


def _holds(path: Path, parts: Sequence[Content], start: int = 0) -> bool:
    """Whether a file holds some parts, one after the other, from a place on."""
    with path.open("rb") as file:
        file.seek(start)
        return all(hashlib.sha256(file.read(one.size)).hexdigest() == one.sha256 for one in parts)


def _moment(run_directory: Path, scratch: Path) -> dict[str, Path] | None:
    """Return the files of a run directory at one moment, by their names in it; None where none was found."""
    for attempt in range(TRIES):
        folder = scratch / str(attempt)
        before = _seen(run_directory)
        if not before:
            return None
        links: dict[str, Path] = {}
        with suppress(FileNotFoundError):
            for name in before:
                links[name] = folder / name
                links[name].parent.mkdir(parents=True, exist_ok=True)
                if before[name][1] > COPIED_BYTES:
                    os.link(run_directory / name, links[name])
                else:
                    shutil.copy2(run_directory / name, links[name])
            if _seen(run_directory) == before:
                return links
        shutil.rmtree(folder, ignore_errors=True)
    return None


def _seen(run_directory: Path) -> dict[str, tuple[int, int, int]]:
    found: dict[str, tuple[int, int, int]] = {}
    for path in files_of_run_directory(run_directory):
        with suppress(FileNotFoundError):
            about = path.stat()
            found[path.relative_to(run_directory).as_posix()] = (
                about.st_ino,
                about.st_size,
                about.st_mtime_ns,
            )
    return found


def take_up(remote: RemoteHome, state: State, folder: Path) -> int:
    """Lay what another worker had under way over the home in a folder.

    A run directory takes the place of the one that is there; of two journals of one name the longer counts.

    Args:
        remote: The home.
        state: What it is now.
        folder: Where it will be worked on; it holds the home as it was sent last, if it was.

    Returns:
        How many files it put in place.

    Raises:
        InputError: A content is gone or altered, or the list names what no home holds.
        Unavailable: The store does not answer.
    """
    pieces = remote.under_way(state)
    require_names(remote, {*pieces, *(piece.whole for piece in pieces.values() if piece.whole)})
    wanted = {name: piece for name, piece in pieces.items() if piece.whole or not _has(folder / name, piece)}
    parts = {
        f"{name} ({number})": Stored(name, part)
        for name, piece in wanted.items()
        for number, part in enumerate(piece.parts)
    }
    make_folder(folder)
    with tempfile.TemporaryDirectory(
        prefix=f".{folder.name}.", suffix=".sending", dir=folder.parent
    ) as scratch:
        fetched = Path(scratch, "contents")
        fetched.mkdir()
        fetch(remote, parts, fetched, {}, THREADS)
        for whole in sorted({piece.whole for piece in wanted.values() if piece.whole}):
            building = Path(scratch, "run_directory")
            for name, piece in wanted.items():
                if piece.whole == whole:
                    _join(piece, fetched, building / Path(name).relative_to(whole))
            make_folder((folder / whole).parent)
            replace_folder(building, folder / whole)
        for name, piece in wanted.items():
            if not piece.whole:
                make_folder((folder / name).parent)
                with replacing_file(folder / name) as partial:
                    _join(piece, fetched, partial)
    return len(wanted)


def _has(path: Path, piece: Piece) -> bool:
    return path.is_file() and path.stat().st_size >= sum(one.size for one in piece.parts)


def _join(piece: Piece, fetched: Path, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for part in piece.parts:
            with (fetched / part.sha256).open("rb") as source:
                shutil.copyfileobj(source, file)
    path.chmod(piece.mode & 0o777)
