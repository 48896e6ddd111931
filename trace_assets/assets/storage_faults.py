"""What went wrong beneath the program, in one sentence: a full disk, a failing one, a damaged history."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from trace_assets.errors import InputError, TraceError, Unavailable
from trace_assets.store.home import is_full

_FULL = ("no space left on device", "disk quota exceeded", "database or disk is full")
_FAILED = "disk i/o error"
_REFUSED = {errno.EROFS, errno.EACCES, errno.EPERM}


def explain(error: BaseException, home: Path) -> TraceError | None:
    """Return what a person is told of an error of the disk or of Dagster's databases.

    Args:
        error: What was raised; what it was raised from is looked at too.
        home: The home that was worked on.

    Returns:
        The sentence with the way back; None when it is no such error.
    """
    causes = list(_causes(error))
    for one in causes:
        number = one.errno if isinstance(one, OSError) else None
        if number in (errno.ENOSPC, errno.EDQUOT) or _says_full(one, home):
            return Unavailable(
                f"the disk is full ({_where(one, home)}): free some space and run the same command again; "
                "what was finished is kept, and it goes on from there."
            )
        if number == errno.EIO:
            return Unavailable(
                f"the disk fails ({_where(one, home)}: {one}): copy the home {home} to another one, look at "
                "the copy by `trace doctor --deep`, and run the same command there."
            )
        if number in _REFUSED and _is_within(one, home):
            return InputError(
                f"{_where(one, home)} cannot be written ({_reason(one)}): make the home writable, or set "
                "TRACE_HOME to a folder of yours."
            )
    database = next((one for one in causes if isinstance(one, sqlite3.DatabaseError)), None)
    return None if database is None else _history(database, home)


def damaged_database(folder: Path) -> Path | None:
    """Return the first SQLite database below a folder that is damaged, None when all are sound."""
    for file in sorted(folder.rglob("*.db")):
        try:
            with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as connection:
                (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.DatabaseError as error:
            if any(words in str(error) for words in ("locked", "unable to open", "readonly")):
                continue  # which says nothing of its content
            if _says_full(error, file.parent):
                continue
            return file
        if said != "ok":
            return file
    return None


def way_back(home: Path) -> str:
    """Say how a home goes on whose history is lost."""
    return (
        f"`mv {home / 'dagster'} {home / 'dagster.damaged'}`, then `trace sync`: it is made anew, and what "
        "was played, trained and paid for is taken from where it lies"
    )


def _history(error: sqlite3.DatabaseError, home: Path) -> TraceError | None:
    said = str(error)
    if "locked" in said:
        return Unavailable(
            f"Dagster's history in {home / 'dagster'} is held by another program for too long; end it, or "
            "wait, and run the same command again."
        )
    file = damaged_database(home / "dagster")
    if file is None and "malformed" not in said and "not a database" not in said:
        return None
    return Unavailable(
        f"Dagster's history of this home is damaged ({file or home / 'dagster'}: {said}): {way_back(home)}."
    )


def _says_full(error: BaseException, home: Path) -> bool:
    said = str(error).lower()
    return any(words in said for words in _FULL) or (
        # SQLite does not tell a disk that fails from one without room for the files beside a database.
        isinstance(error, sqlite3.DatabaseError) and _FAILED in said and is_full(home)
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    rest: list[BaseException | None] = [error]
    while rest:
        one = rest.pop(0)
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        inner = getattr(one, "orig", None)  # what an error of SQLAlchemy was made of
        rest += [one.__cause__, one.__context__, inner if isinstance(inner, BaseException) else None]


def _where(error: BaseException, home: Path) -> str:
    return str(getattr(error, "filename", None) or home)


def _is_within(error: BaseException, home: Path) -> bool:
    name = getattr(error, "filename", None)
    return isinstance(name, str) and Path(name).absolute().is_relative_to(home)


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error)
