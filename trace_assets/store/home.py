"""One folder that holds everything the program makes."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from trace_assets.errors import InputError

HOME_VARIABLE = "TRACE_HOME"


@dataclass(frozen=True)
class Home:
    """The folder named by `TRACE_HOME`, `.trace/` in the working directory by default.

    Attributes:
        path: Absolute path of the folder.
    """

    path: Path

    @classmethod
    def open(cls, path: Path | str | None = None) -> Home:
        """Make the folder if it is not there, and return it.

        Args:
            path: The folder; None reads `TRACE_HOME`, then falls back to `.trace`.

        Raises:
            InputError: The folder cannot be made or written to.
        """
        chosen = Path(path or os.environ.get(HOME_VARIABLE) or ".trace").expanduser().absolute()
        try:
            chosen.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"the home folder {chosen} cannot be made ({error.strerror}); set {HOME_VARIABLE} to a "
                "folder you may write to."
            ) from error
        if not os.access(chosen, os.W_OK):
            raise InputError(
                f"the home folder {chosen} is not writable; set {HOME_VARIABLE} to a folder you may write to."
            )
        return cls(chosen)

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


@contextmanager
def replacing_folder(target: Path) -> Iterator[Path]:
    """Build a folder beside `target` and put it in place when the body has succeeded.

    Args:
        target: Folder to make or replace.

    Yields:
        An empty folder to fill; it is removed when the body fails.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    building = target.parent / f".{target.name}.{uuid4().hex[:8]}.partial"
    building.mkdir()
    try:
        yield building
        replace_folder(building, target)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise


@contextmanager
def replacing_file(target: Path) -> Iterator[Path]:
    """Write a file beside `target` and put it in place by one rename when the body has succeeded.

    Readers see the old file or the new one. A writer that is killed leaves `.<name>.<id>.partial`, which the
    next command removes (`store.leftovers`).

    Args:
        target: File to make or replace, in a folder that is there.

    Yields:
        The path to write to; nothing is left of it when the body fails.
    """
    partial = target.with_name(f".{target.name}.{uuid4().hex[:8]}.partial")
    try:
        yield partial
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def replace_folder(new: Path, target: Path) -> None:
    """Put a finished folder in the place of `target`, which is never seen half written nor missing.

    Where the file system can (Linux on ext4, xfs, btrfs, tmpfs, overlayfs) the two change places in one step.
    Elsewhere `target` is missing for a moment; if the program is killed right then, the old folder lies
    beside it as `.<name>.<id>.old`, and the next command puts it back (`store.leftovers`).

    Args:
        new: The finished folder, on the same file system; afterwards it is gone.
        target: Where it shall be.
    """
    if not target.exists():
        os.rename(new, target)
        return
    old = target.parent / f".{target.name}.{uuid4().hex[:8]}.old"
    if _exchange(new, target):
        os.rename(new, old)
    else:
        os.rename(target, old)
        os.rename(new, target)
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
