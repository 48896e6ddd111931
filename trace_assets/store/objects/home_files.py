"""Which files make up a home when it is copied, what each is, and what copies know of each other."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from trace_assets.errors import InputError, Unavailable
from trace_assets.store.content import text_version
from trace_assets.store.database import database_of
from trace_assets.store.files import Home, write_text
from trace_assets.store.locks import exclusive, sync_lock
from trace_assets.store.manifest import MANIFEST, Manifest
from trace_assets.store.presence import announce

COPIES = ".copies.json"
"""In a home: which homes in object stores it was copied to or from."""
LEFT_OUT = ("locks", "targets")
"""Folders of a home that are of its machine alone: who works there, and interpreters with absolute paths."""
DUE = "locks/due"
_ROUND = "round.json"
_HALF_MADE = re.compile(r"\..*\.[0-9a-f]{8}\.(partial|old|new)")
_SQLITE = b"SQLite format 3\0"
_BESIDE_SQLITE = ("-wal", "-shm", "-journal")
SHOWN = 5


@dataclass(frozen=True)
class HomeFile:
    """A file of a home.

    Attributes:
        path: Where its content is read; of a database a copy that no writer touches.
        size: Bytes.
        sha256: What it shall hold, by the manifest, or what it held a moment ago.
        mode: Its permissions.
    """

    path: Path
    size: int
    sha256: str
    mode: int


def home_files(home: Path, scratch: Path) -> dict[str, HomeFile]:
    """Return the files of a home that a copy of it holds, by name.

    Locks, installed targets and what is half made are left out. A file that the manifest lists is not read:
    that it is what the manifest says is found out when it is sent.

    Args:
        home: Its folder.
        scratch: An empty folder for copies of databases, which may be written to meanwhile.

    Raises:
        InputError: A file that the manifest lists is gone or has another size, or something is in the home
            that no object store can hold.
    """
    paths = list(_paths(home))
    listed, wrong = _listed(home, paths), list[str]()
    found: dict[str, HomeFile] = {}
    for path in paths:
        name = path.relative_to(home).as_posix()
        try:
            about = path.stat()
        except FileNotFoundError:
            continue  # it was removed just now; the manifest tells whether it should have been there
        entry = listed.pop(name, None)
        if entry is None:
            found[name] = _unlisted(path, about, scratch)
        elif entry[0] != about.st_size:
            wrong.append(f"{name} has {about.st_size:,} bytes in place of {entry[0]:,}")
        else:
            found[name] = HomeFile(path, *entry, stat.S_IMODE(about.st_mode))
    wrong += [f"{name} is gone" for name in listed]
    if wrong:
        more = f"; and {len(wrong) - SHOWN:,} more" if len(wrong) > SHOWN else ""
        raise InputError(
            f"{home} is not whole: {'; '.join(sorted(wrong)[:SHOWN])}{more}. Run `trace sync`, which makes "
            "files again, or `trace doctor`, and copy it then."
        )
    return found


def _unlisted(path: Path, about: os.stat_result, scratch: Path) -> HomeFile:
    with path.open("rb") as file:
        is_database = file.read(len(_SQLITE)) == _SQLITE
    place = _snapshot(path, scratch / hashlib.sha256(os.fsencode(path)).hexdigest()) if is_database else path
    with place.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        return HomeFile(place, file.tell(), sha256, stat.S_IMODE(about.st_mode))


def _snapshot(database: Path, place: Path) -> Path:
    """Copy a database as it is after its last transaction, though another may be under way."""
    for how in ("mode=ro", "immutable=1"):  # a folder that cannot be written to has no place for its lock
        with suppress(sqlite3.OperationalError):
            place.unlink(missing_ok=True)
            with (
                closing(sqlite3.connect(f"file:{database}?{how}", uri=True)) as source,
                closing(sqlite3.connect(place)) as target,
            ):
                source.backup(target)
            return place
    raise InputError(f"the database {database} cannot be read; `trace doctor --deep` says more.")


def _listed(home: Path, paths: list[Path]) -> dict[str, tuple[int, str]]:
    """Return (size, SHA-256) of all files that a manifest in the home lists, by name in the home."""
    found: dict[str, tuple[int, str]] = {}
    for path in paths:
        if path.name == MANIFEST:
            for name, entry in Manifest(path, path.parent).entries().items():
                if not name.startswith("/"):
                    place = (path.parent / name).relative_to(home).as_posix()
                    found[place] = (entry.size, entry.sha256)
    return found


def _paths(home: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(home):
        folder = Path(place)
        if folder == home or _ROUND in files:  # a later round is a home of its own
            folders[:] = [one for one in folders if one not in LEFT_OUT]
            yield from sorted(one for one in (folder / DUE).glob("*.due") if one.is_file())
        folders[:] = sorted(one for one in folders if not _HALF_MADE.fullmatch(one))
        for one in folders:
            if (folder / one).is_symlink():
                raise InputError(
                    f"{folder / one} is a link to a folder, which an object store cannot hold: put the "
                    "folder itself there."
                )
        for one in sorted(files):
            if _is_kept(folder / one):
                yield _named(folder / one, home)


def _named(path: Path, home: Path) -> Path:
    """Return a file whose name is text, which the list of a home's files can hold.

    Raises:
        InputError: It is not.
    """
    if any("\ud800" <= mark <= "\udfff" for mark in str(path.relative_to(home))):
        raise InputError(
            f"{str(path)!r} has a name that is no UTF-8, which the list of a home's files cannot hold: "
            "rename it, or take it out of the home."
        )
    return path


def _is_kept(path: Path) -> bool:
    name = path.name
    if name == COPIES or _HALF_MADE.fullmatch(name) or name.endswith(_BESIDE_SQLITE):
        return False
    # The manifest's lock says, by what it holds, that there was a manifest.
    return path.is_file() and (not name.endswith(".lock") or name == f"{MANIFEST}.lock")


@dataclass(frozen=True)
class Copied:
    """What a copy did.

    Attributes:
        files: Files of the home.
        size: Their bytes.
        moved: Contents that were sent or fetched; equal ones are one.
        moved_bytes: Their bytes.
        changed: Whether the destination is another home than before.
    """

    files: int
    size: int
    moved: int
    moved_bytes: int
    changed: bool


@dataclass(frozen=True)
class Known:
    """What a home knows of one in an object store.

    Attributes:
        commits: Ids of the writes that made that one what this one is; two where the answer to the last is
            not known yet.
        version: That of the home's files then.
    """

    commits: tuple[str, ...]
    version: str


def known_copies(home: Path) -> dict[str, Known]:
    """Return what a home knows of homes in object stores, by their addresses."""
    try:
        found = json.loads((home / COPIES).read_text(encoding="utf-8"))
        return {
            str(name): Known(tuple(str(one) for one in said["commits"]), str(said["version"]))
            for name, said in found.items()
        }
    except (OSError, ValueError, AttributeError, TypeError, KeyError):
        return {}


def note_copy(home: Path, name: str, known: Known) -> None:
    """Note what a home knows of one in an object store; one that cannot be written to notes nothing."""
    if os.access(home, os.W_OK):
        text = json.dumps(
            {one: asdict(said) for one, said in {**known_copies(home), name: known}.items()}, indent=1
        )
        write_text(home / COPIES, text)


def files_version(files: Mapping[str, str]) -> str:
    """Return one version for the files of a home; without Dagster's own, which looking changes."""
    chosen = sorted(one for one in files.items() if not one[0].startswith("dagster/"))
    return text_version(*(part for one in chosen for part in one))


@contextmanager
def at_rest(home: Home) -> Iterator[None]:
    """Keep syncs away from a home; one that cannot be written to has none.

    Raises:
        InputError: A database holds a part of it.
        Unavailable: One is under way, here or on another machine.
    """
    if database_of(home.path) is not None:
        raise InputError(
            f"a database holds the leases of {home.path}, what is due there and what was spent: a copy of "
            "the folder would lack them. Run `trace cluster files` first."
        )
    if not home.is_writable:
        yield
        return
    announce(home)
    with ExitStack() as stack:
        try:
            stack.enter_context(exclusive(sync_lock(home), "trace home copy", patience=0))
        except TimeoutError as error:
            raise Unavailable(
                f"{home.path} is being worked on: {error}; copy it when that has ended."
            ) from None
        yield
