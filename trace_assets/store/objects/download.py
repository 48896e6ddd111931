"""A home comes out of a bucket, each file compared with its hash: all in one step, or a state to look at."""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from trace_assets.errors import InputError, Unavailable
from trace_assets.store.files import MIRROR, Home, make_folder, replace_folder
from trace_assets.store.locks import exclusive
from trace_assets.store.objects.bucket import Bucket
from trace_assets.store.objects.home_files import (
    COPIES,
    DUE,
    LEFT_OUT,
    Copied,
    Known,
    at_rest,
    files_version,
    home_files,
    known_copies,
    note_copy,
)
from trace_assets.store.objects.remote import Content, RemoteHome, State, Stored, read_again
from trace_assets.system.object_address import Address, parse_address

T = TypeVar("T")

ATTEMPTS = 3
THREADS = 8


class Occupied(InputError):
    """The folder holds what a copy would undo."""


def copy_down(remote: RemoteHome, folder: Path, *, replace: bool = False, threads: int = THREADS) -> Copied:
    """Make a folder hold the home of a bucket.

    Args:
        remote: Where from.
        folder: Is made; or holds an earlier copy of that home which nobody has worked on since.
        replace: Take the place of whatever lies in the folder.
        threads: How many requests go at once.

    Raises:
        InputError: There is no home, or a file of it was altered.
        Occupied: The folder holds something else.
        Unavailable: The store does not answer, or somebody works on the folder.
    """
    folder = folder.absolute()
    return read_home(remote, lambda state: _copy(remote, state, folder, replace, threads))


def read_home(remote: RemoteHome, read: Callable[[State], T]) -> T:
    """Read a home, and once more where it was replaced meanwhile and what it held was removed.

    Raises:
        InputError: There is none, or a file of it was altered.
    """
    for attempt in range(1, ATTEMPTS + 1):
        state = remote.state()
        if not state.holds_home:
            begun = ", only what somebody began to send" if state.tag is not None else ""
            raise InputError(
                f"{remote.name} holds no home{begun}; `trace home copy FOLDER {remote.name}` makes one."
            )
        try:
            return read(state)
        except InputError:
            if attempt == ATTEMPTS or remote.state().pointer.commit == state.pointer.commit:
                raise
    raise AssertionError("the last attempt returns or raises")


def _copy(remote: RemoteHome, state: State, folder: Path, replace: bool, threads: int) -> Copied:
    files = remote.files(state)
    require_names(remote, files)
    size = sum(one.content.size for one in files.values())
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        moved, moved_bytes = _lay_out(remote, state, files, folder, {}, threads)
        return Copied(len(files), size, moved, moved_bytes, True)
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder; name one that is not there yet.")
    with at_rest(Home(folder)), tempfile.TemporaryDirectory(prefix="trace-copy-") as scratch:
        own: dict[str, Path] = {}
        if not replace:
            known = known_copies(folder).get(remote.name)
            mine = home_files(folder, Path(scratch))
            if known is None or known.version != files_version({n: one.sha256 for n, one in mine.items()}):
                held = f"a copy of {remote.name} that was worked on since" if known else "something else"
                raise Occupied(
                    f"{folder} holds {held}: name a folder that is not there yet, or put the copy in "
                    "its place by `--replace`."
                )
            if state.pointer.home in known.commits:
                return Copied(len(files), size, 0, 0, False)
            own = {one.sha256: one.path for one in mine.values()}
        moved, moved_bytes = _lay_out(remote, state, files, folder, own, threads)
    return Copied(len(files), size, moved, moved_bytes, True)


def require_names(remote: RemoteHome, files: Iterable[str]) -> None:
    """Make sure that a list of files names none outside the home, nor what is a machine's own.

    Raises:
        InputError: It does.
    """
    for name in files:
        parts = name.split("/")
        if (
            name.startswith("/")
            or "\0" in name
            or {"", ".", ".."} & {*parts}
            or parts[0] in (COPIES, "targets")
        ):
            raise InputError(f"{remote.name} lists a file '{name}', which no home holds; nothing was copied.")


def _lay_out(
    remote: RemoteHome,
    state: State,
    files: Mapping[str, Stored],
    folder: Path,
    own: Mapping[str, Path],
    threads: int,
) -> tuple[int, int]:
    """Fetch what is not there, build the home beside the folder, and put it in place.

    Returns:
        How many contents were fetched, and their bytes.
    """
    make_folder(folder.parent)
    fetched = folder.parent / f".{folder.name}.copying"
    fetched.mkdir(mode=0o700, exist_ok=True)
    try:
        with exclusive(fetched / "lock", f"copying {remote.name}", patience=0):
            _remove_left(folder.parent, f".{folder.name}.", ".laying")
            moved = fetch(remote, files, fetched, own, threads)
            building = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".laying", dir=folder.parent))
            try:
                _build(files, fetched, building)
                _carry_over(folder, building)
                version = files_version({name: one.content.sha256 for name, one in files.items()})
                note_copy(building, remote.name, Known((state.pointer.home,), version))
                building.chmod(0o755)
                if folder.is_dir() and not any(folder.iterdir()):
                    folder.rmdir()
                replace_folder(building, folder)
            finally:
                shutil.rmtree(building, ignore_errors=True)
            shutil.rmtree(fetched, ignore_errors=True)
    except TimeoutError as error:
        raise Unavailable(f"another copy to {folder} is under way ({error}).") from None
    return moved


def fetch(
    remote: RemoteHome,
    files: Mapping[str, Stored],
    fetched: Path,
    own: Mapping[str, Path],
    threads: int,
) -> tuple[int, int]:
    """Have every content in a folder, under its hash; what is there, whole, is not fetched again.

    Args:
        remote: Where from.
        files: What shall be there.
        fetched: The folder.
        own: Files on this machine that may hold some of it, by hash.
        threads: How many requests go at once.

    Returns:
        How many contents were fetched, and their bytes.
    """
    wanted: dict[str, tuple[Content, str]] = {}
    for name, one in files.items():
        wanted.setdefault(one.content.sha256, (one.content, name))
    missing = [
        (content, name) for content, name in wanted.values() if not _has(fetched / content.sha256, content)
    ]
    sent = [(content, name) for content, name in missing if not _take(own, content, fetched)]
    with ThreadPoolExecutor(threads) as pool:
        running = [pool.submit(_fetch_one, remote, content, name, fetched) for content, name in sent]
        try:
            for future in running:
                future.result()
        finally:
            for future in running:
                future.cancel()
    return len(sent), sum(content.size for content, _ in sent)


def _remove_left(parent: Path, prefix: str, suffix: str) -> None:
    """Remove what a killed copy had laid out; the caller holds the lock under which that is done."""
    for left in parent.glob(f"{glob.escape(prefix)}{'?' * 8}{suffix}"):
        shutil.rmtree(left, ignore_errors=True)


def _has(path: Path, content: Content) -> bool:
    if not path.is_file() or path.stat().st_size != content.size:
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == content.sha256


def _take(own: Mapping[str, Path], content: Content, fetched: Path) -> bool:
    """Take a content from the folder that is replaced, where it is what it shall be."""
    if (path := own.get(content.sha256)) is None:
        return False
    part = fetched / f"{content.sha256}.part"
    shutil.copyfile(path, part)
    if not _has(part, content):
        return False
    part.rename(fetched / content.sha256)
    return True


def _fetch_one(remote: RemoteHome, content: Content, name: str, fetched: Path) -> None:
    part = fetched / f"{content.sha256}.part"

    def read() -> None:
        with part.open("wb") as file:
            for piece in remote.read(content, name):
                file.write(piece)

    read_again(read)
    part.rename(fetched / content.sha256)


def _build(files: Mapping[str, Stored], fetched: Path, building: Path) -> None:
    left = Counter(one.content.sha256 for one in files.values())
    for name, one in files.items():
        place, sha256 = building / name, one.content.sha256
        place.parent.mkdir(parents=True, exist_ok=True)
        left[sha256] -= 1
        # Copied and not linked: files that are equal now may grow apart.
        if left[sha256]:
            shutil.copyfile(fetched / sha256, place)
        else:
            (fetched / sha256).rename(place)
        place.chmod(one.mode & 0o777)


def _carry_over(old: Path, new: Path) -> None:
    """Keep what is of this machine alone: installed targets, and locks, which others may be waiting for."""
    for name in LEFT_OUT:
        for place, folders, names in os.walk(old / name):
            here = Path(place).relative_to(old)
            if here.as_posix() == DUE:
                continue
            (new / here).mkdir(parents=True, exist_ok=True)
            links = [one for one in folders if (old / here / one).is_symlink()]
            for one in (*names, *links):
                if (old / here / one).is_symlink():
                    (new / here / one).symlink_to((old / here / one).readlink())
                else:
                    os.link(old / here / one, new / here / one)
    for lock in old.glob("*.lock"):
        if not (new / lock.name).exists():
            os.link(lock, new / lock.name)


CACHE_VARIABLE = "TRACE_CACHE"
NOT_TO_LOOK_AT = frozenset(
    ("models", "journals", "answers", "dagster", "damaged", "serving", "reports", "environments", "locks")
)
"""Folders of a home that no query and no page reads."""
KEPT_STATES = 2
"""The last one and the one before, which somebody may still be reading."""


def cache_folder() -> Path:
    """Return the folder of what this machine keeps of homes in object stores."""
    named = os.environ.get(CACHE_VARIABLE)
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return (Path(named) if named else Path(caches) / "trace-assets" / "homes").expanduser().absolute()


def place_of(address: Address) -> Path:
    """Return the folder of what this machine keeps of one of them."""
    endpoints = (
        os.environ.get(name, "") for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT")
    )
    said = "\n".join((str(address), *endpoints))
    name = address.prefix.rpartition("/")[2] or address.bucket
    return cache_folder() / f"{name}-{hashlib.sha256(said.encode()).hexdigest()[:12]}"


def make_place(place: Path) -> None:
    """Make the folder of what this machine keeps of a home: no other user looks into it."""
    make_folder(place)
    place.chmod(0o700)


def mirror(text: str, *, whole: bool = False) -> Path:
    """Return a folder that holds the home at an address as it is now.

    What is on this machine already is compared with its hash, and not fetched again.

    Args:
        text: The address.
        whole: Also models, journals and history; otherwise what queries and pages read.

    Raises:
        InputError: There is no home, or a file of it was altered.
        Unavailable: The store does not answer.
    """
    address = parse_address(text)
    remote = RemoteHome(Bucket.open(address))
    return read_home(remote, lambda state: _folder(remote, state, place_of(address), whole))


def _folder(remote: RemoteHome, state: State, place: Path, whole: bool) -> Path:
    everything = place / f"whole-{state.pointer.home}"
    folder = everything if whole else place / f"tables-{state.pointer.home}"
    make_place(place)
    for found in (everything, folder):
        if (found / MIRROR).is_file():
            return found
    with exclusive(place / "lock", f"fetching {remote.name}"):
        if not (folder / MIRROR).is_file():
            files = remote.files(state)
            require_names(remote, files)
            _make({name: one for name, one in files.items() if whole or _is_looked_at(name)}, remote, folder)
            _forget_old(place)
    return folder


def _is_looked_at(name: str) -> bool:
    parts = name.split("/")
    place = parts[2:] if parts[0] == "rounds" else parts
    return place[:1] == [] or place[0] not in NOT_TO_LOOK_AT


def _make(files: dict[str, Stored], remote: RemoteHome, folder: Path) -> None:
    contents = folder.parent / "contents"
    contents.mkdir(exist_ok=True)
    _remove_left(folder.parent, ".", ".making")
    fetch(remote, files, contents, {}, THREADS)
    building = Path(tempfile.mkdtemp(prefix=".", suffix=".making", dir=folder.parent))
    try:
        for name, one in files.items():
            path = building / name
            path.parent.mkdir(parents=True, exist_ok=True)
            os.link(contents / one.content.sha256, path)  # nobody writes into it
        (building / MIRROR).write_text(f"{remote.name}\n", encoding="utf-8")
        replace_folder(building, folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _forget_old(place: Path) -> None:
    for kind in ("whole", "tables"):
        states = sorted(place.glob(f"{kind}-*"), key=lambda one: one.stat().st_mtime_ns, reverse=True)
        for old in states[KEPT_STATES:]:
            shutil.rmtree(old, ignore_errors=True)
    for content in (place / "contents").iterdir():
        if content.stat().st_nlink == 1:  # no state that is kept holds it
            content.unlink()
