"""One folder that holds everything the program makes."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from trace_assets.errors import InputError
from trace_assets.system.object_address import is_address

HOME_VARIABLE = "TRACE_HOME"
MIRROR = ".mirror"
"""Lies in a folder that shows what a home in an object store holds; nothing is written there."""
HISTORY = ("history/runs.db", "history/runs/index.db", "schedules/schedules.db")
"""Databases in the Dagster home that every command writes to."""
ROOM = 1 << 18
"""Bytes: a disk with less is full."""


@dataclass(frozen=True)
class Home:
    """The folder named by `TRACE_HOME`, `.trace/` in the working directory by default.

    Attributes:
        path: Absolute path of the folder.
    """

    path: Path

    @classmethod
    def open(cls, path: Path | str | None = None, *, writable: bool = True) -> Home:
        """Return the home, its folder made where it will be written to.

        Args:
            path: The folder; None reads `TRACE_HOME`, then falls back to `.trace`.
            writable: Whether it will be written to; without, nothing is made: a home can be looked at on a
                read-only disk, and one that is not there is empty.

        Raises:
            InputError: The folder cannot be made, or written to where it shall be.
        """
        chosen = chosen_folder(path)
        try:
            str(chosen).encode()
        except UnicodeEncodeError:
            shown = os.fsencode(chosen).decode("utf-8", "backslashreplace")
            raise InputError(
                f"the name of the home folder {shown} is not UTF-8, and no table can be read from it; set "
                f"{HOME_VARIABLE} to another one."
            ) from None
        if writable or (chosen.exists() and not chosen.is_dir()):
            try:
                make_folder(chosen)
            except OSError as error:
                raise InputError(
                    f"the home folder {chosen} cannot be made ({error.strerror}); set {HOME_VARIABLE} to a "
                    "folder you may write to."
                ) from error
        home = cls(chosen)
        if writable and not home.is_writable:
            raise InputError(
                f"the home folder {chosen} is not writable; set {HOME_VARIABLE} to a folder you may write to "
                "(this one can be looked at: `trace sql`, `trace report`, `trace sync --dry-run`)."
            )
        return home

    @property
    def is_writable(self) -> bool:
        """Whether files can be made in it; it may be a copy on a read-only disk, or somebody else's.

        Of a folder that several users may write to, Dagster's history counts: SQLite lays a log beside a
        database that it opens, even to read, and a log of this user's would lock the owner out.
        """
        theirs = (one for name in HISTORY for one in (self.dagster / name, self.dagster / f"{name}-wal"))
        return (
            os.access(self.path, os.W_OK)
            and not (self.path / MIRROR).exists()
            and all(os.access(one, os.W_OK) or not one.exists() for one in theirs)
        )

    @property
    def is_full(self) -> bool:
        """Whether its disk has no room left, not even for what SQLite lays beside a database."""
        return is_full(self.path)

    @property
    def tables(self) -> Path:
        """Parquet tables, one folder each."""
        return self.path / "tables"

    @property
    def inbox(self) -> Path:
        """Trajectories that were ingested, one folder a task batch."""
        return self.path / "inbox"

    @property
    def descriptions(self) -> Path:
        """Tools and policies that were given for targets whose trajectories were ingested."""
        return self.path / "descriptions"

    @property
    def models(self) -> Path:
        """Base models and adapters that were trained here."""
        return self.path / "models"

    @property
    def journals(self) -> Path:
        """Finished episodes and checkpoints of work that is under way."""
        return self.path / "journals"

    @property
    def answers(self) -> Path:
        """Answers of language models by the hash of the question, and what they cost."""
        return self.path / "answers"

    @property
    def targets(self) -> Path:
        """Installed targets: an interpreter each, and the record of where it came from."""
        return self.path / "targets"

    @property
    def parities(self) -> Path:
        """Comparisons with a benchmark's own program, one folder each."""
        return self.path / "parity"

    @property
    def reports(self) -> Path:
        """HTML pages."""
        return self.path / "reports"

    @property
    def dagster(self) -> Path:
        """DAGSTER_HOME: run and event storage."""
        return self.path / "dagster"

    def relative(self, path: Path) -> str:
        """Return a path inside the home as records store it: relative, with forward slashes."""
        return path.resolve().relative_to(self.path.resolve()).as_posix()


def nearest(path: Path) -> Path:
    """Return a path, or the lowest folder above it that is there."""
    return next(one for one in (path, *path.parents) if one.exists())


def is_full(path: Path) -> bool:
    """Whether the disk of a path, or on which it would be made, has less than `ROOM` left for this user."""
    return shutil.disk_usage(nearest(path)).free < ROOM


def chosen_folder(path: Path | str | None = None) -> Path:
    """Return the folder of a home, given or as the environment names it, whether it is there or not.

    Raises:
        InputError: An address of an object store is named.
    """
    named = path or os.environ.get(HOME_VARIABLE) or ".trace"
    if is_address(str(named)):
        raise InputError(
            "the home is an object store, and no folder: only commands of `trace` that open a study work on "
            "it. `trace home copy` makes a folder of it."
        )
    folder = Path(named)
    with suppress(RuntimeError):  # `~name` of nobody is a folder of that name, as in a shell
        folder = folder.expanduser()
    return folder.absolute()


@contextmanager
def replacing_folder(target: Path) -> Iterator[Path]:
    """Build a folder beside `target` and put it in place, for good, when the body has succeeded.

    Yields:
        An empty folder to fill; it is removed when the body fails.
    """
    make_folder(target.parent)
    building = target.parent / f".{target.name}.{uuid4().hex[:8]}.partial"
    building.mkdir()
    try:
        yield building
        replace_folder(building, target)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise


LONGEST_NAME = 255
"""Bytes of a file's name on the file systems of Linux."""


def _alone(partial: Path) -> AbstractContextManager[object]:
    return nullcontext()


@contextmanager
def replacing_file(
    target: Path, placing: Callable[[Path], AbstractContextManager[object]] = _alone
) -> Iterator[Path]:
    """Write a file beside `target` and put it in place by one rename when the body has succeeded.

    Readers see the old file or the new one, also after a power cut: the content is on the disk before the
    rename, and the rename before this returns. A writer that is killed leaves `.<name>.<id>.partial`, which
    the next command removes (`store.leftovers`).

    Args:
        target: File to make or replace, in a folder that is there.
        placing: Is given the finished partial file; what it returns is held during the rename.

    Yields:
        The path to write to; nothing is left of it when the body fails.
    """
    if not target.name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    ending = f".{uuid4().hex[:8]}.partial"
    # A name that fits by itself need not fit with what is added to it; nobody reads it from the partial file.
    begin = os.fsdecode(os.fsencode(f".{target.name}")[: LONGEST_NAME - len(ending)])
    partial = target.with_name(begin + ending)
    try:
        yield partial
        sync_file(partial)
        with placing(partial):
            os.replace(partial, target)
            sync_folder(target.parent)
    finally:
        partial.unlink(missing_ok=True)


def write_text(
    target: Path, text: str, *, placing: Callable[[Path], AbstractContextManager[object]] = _alone
) -> None:
    """Write a text file as `replacing_file` does: whoever reads it sees all of the old one or of the new."""
    with replacing_file(target, placing) as partial:
        partial.write_text(text, encoding="utf-8")


def replace_folder(new: Path, target: Path) -> None:
    """Put a finished folder in the place of `target`, which is never seen half written nor missing.

    Where the file system can (Linux on ext4, xfs, btrfs, tmpfs, overlayfs) the two change places in one step.
    Elsewhere `target` is missing for a moment; if the program is killed right then, the old folder lies
    beside it as `.<name>.<id>.old`, and the next command puts it back (`store.leftovers`). The content is on
    the disk before it is in place, and in place on the disk before this returns.

    Args:
        new: The finished folder, on the same file system; afterwards it is gone.
        target: Where it shall be.
    """
    sync_tree(new)
    if not target.exists():
        os.rename(new, target)
        sync_folder(target.parent)
        return
    old = target.parent / f".{target.name}.{uuid4().hex[:8]}.old"
    if _exchange(new, target):
        sync_folder(target.parent)  # before the name of what is removed says that it was replaced
        os.rename(new, old)
    else:
        os.rename(target, old)
        os.rename(new, target)
    sync_folder(target.parent)
    shutil.rmtree(old, ignore_errors=True)


_RENAME_EXCHANGE = 2
_AT_FDCWD = -100


def _exchange(one: Path, other: Path) -> bool:
    """Let two paths change places in one step; tell whether the system could."""
    try:
        renameat2 = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError):
        return False
    code = renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    return bool(code == 0)


def exchange_works(folder: Path) -> bool:
    """Whether two folders inside `folder` can change places in one step: its file system decides."""
    one, other = folder / "one", folder / "other"
    one.mkdir()
    other.mkdir()
    return _exchange(one, other)


# What a power cut does not take back: files and folders that are on the disk, not only in memory.


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


# What a home keeps of each environment's text beside the tables, for no other user's eyes.


def environment_file(home: Home, environment_id: str, name: str) -> Path:
    """Return where something of an environment lies.

    Args:
        home: The home.
        environment_id: Hash of the environment's text.
        name: What it is, such as `seeds`.
    """
    folder = hashlib.sha256(environment_id.encode()).hexdigest()[:16]
    return home.path / "environments" / folder / f"{name}.json"


def read_environment_file(home: Home, environment_id: str, name: str) -> Any:
    """Return what was kept; None when it is missing, damaged, or of another environment."""
    try:
        row = json.loads(environment_file(home, environment_id, name).read_text(encoding="utf-8"))
        whole = row["environment_id"] == environment_id and row["check"] == _check(
            environment_id, row["value"]
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return row["value"] if whole else None


def keep_environment_file(home: Home, environment_id: str, name: str, value: Any) -> None:
    """Keep a JSON value, readable for this user alone."""
    path = environment_file(home, environment_id, name)
    path.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    row = {"environment_id": environment_id, "value": value, "check": _check(environment_id, value)}
    with replacing_file(path) as partial:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(row, file)
            file.flush()
            os.fsync(file.fileno())


def _check(environment_id: str, value: Any) -> str:
    """A damaged value would be another one, silently."""
    text = json.dumps([environment_id, value], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
