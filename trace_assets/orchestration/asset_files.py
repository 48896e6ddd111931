"""The files that items left: whether they are as they were left, and what becomes of those that are not.

Dagster knows that an item was made and of what; the manifest knows what its files were. An item is up to date
only where both say so.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path

from trace_assets.errors import FULL_DISK, PRINTED, InputError, TraceError, Unavailable
from trace_assets.records import Record
from trace_assets.resources.policy import enter, files_in, folders_of, listed_in
from trace_assets.store.content import text_version
from trace_assets.store.files import LONGEST_NAME, is_full, make_folder, sync_folder
from trace_assets.store.manifest import Entry, Manifest, manifest_of
from trace_assets.store.tables import WHOLE, is_readable
from trace_assets.study import Study

FILES = "trace/files"
"""Tag of a materialization: the version of the files that it left."""
READ_TO_THE_END = 512 << 20
"""Bytes of tables and models that a look at what is due reads; of what is more it compares sizes and ends."""
DAMAGED = "damaged"
"""Folder of a home for files that are not what they should be, in case that somebody can read them yet."""

PAGES = {"report": "reports/report.html"}
"""Asset to the page that it writes, which is also written when somebody asks for it."""

_TABLES: dict[str, Mapping[type[Record], str]] = {}
_TOGETHER: set[str] = set()


def declare(
    asset: str, records: Iterable[type[Record]], parts: Mapping[type[Record], str], together: bool
) -> None:
    """Say which tables an asset writes.

    Args:
        asset: Its name.
        records: Their records, the main one, which is always written, first.
        parts: File names of those that are not named after the asset's partition.
        together: Whether they are of use only together.
    """
    _TABLES[asset] = {record: parts.get(record, "") for record in records}
    _TOGETHER.update({asset} if together else ())


class ItemFiles:
    """The files of a study's items."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.manifest: Manifest = study.store.manifest or manifest_of(study.home.path)
        self._problems: dict[str, str] = {}
        self._folder = self.manifest.name(study.home.tables)

    def look(self, assets: Collection[str] | None = None) -> None:
        """Compare the files with the manifest.

        Args:
            assets: What these assets wrote, and what was wrong before; None compares all.
        """
        names = set(self.manifest.entries())
        if assets is not None:
            wanted = {self._prefix(record) for asset in assets for record in _TABLES.get(asset, ())}
            names = {name for name in names if name.rpartition("/")[0] in wanted or name in self._problems}
        again = self.manifest.problems(names, READ_TO_THE_END)
        kept = {} if assets is None else self._problems
        self._problems = {name: said for name, said in kept.items() if name not in names} | again

    def said(self, asset: str, partition: str, recorded: str | None) -> str:
        """Say what is wrong with the files of an item that was made; nothing when all is well.

        Args:
            asset: Its asset.
            partition: Its partition.
            recorded: The version of its files by its last materialization; None where that was recorded by a
                version of the program that kept none.
        """
        shown = [PAGES[asset]] if asset in PAGES else []
        names = [*self.names(asset, partition), *shown]
        found = [f"{name} {self._problems[name]}" for name in names if name in self._problems]
        found += [f"{name} cannot be read" for name in self._unreadable(asset, partition)]
        if not found and recorded is None:
            main = [self.manifest.path(name) for name in self._tables(asset, partition)[:1]]
            wanted = [*main, *folders_of(self.study, asset, partition)]
            found = [f"{self.manifest.name(path)} is gone" for path in wanted if not path.exists()]
        if found:
            return f"its file {found[0]}" + (f" and {len(found) - 1} more" if len(found) > 1 else "")
        if recorded and recorded != self.version(asset, partition):
            return "its files are not those that were recorded"
        return ""

    def names(self, asset: str, partition: str) -> list[str]:
        """Return the names of an item's files: those that the manifest lists, or those that are there.

        What somebody has laid beside the files of a model is none of them.
        """
        known = self.manifest.entries()
        names = [
            name
            for name in self._tables(asset, partition)
            if name in known or self.manifest.path(name).is_file()
        ]
        for folder in folders_of(self.study, asset, partition):
            there = files_in(folder) if folder.is_dir() else []
            names += listed_in(self.manifest, folder) or [self.manifest.name(file) for file in there]
        return names

    def own_tables(self, asset: str, partition: str) -> list[str]:
        """Return the names of the tables' files that are of one partition alone, there or not.

        Raises:
            KeyError: The asset's tables are not declared yet, which Dagster's definition of it does.
        """
        return [
            f"{self._prefix(record)}/{partition or WHOLE}.parquet"
            for record, part in _TABLES[asset].items()
            if not part
        ]

    def version(self, asset: str, partition: str) -> str:
        """Return one version of an item's files, by the manifest; one that it does not list is read."""
        known = self.manifest.entries()
        names = sorted(self.names(asset, partition))
        entries = {name: known.get(name) or Entry.of(self.manifest.path(name)) for name in names}
        return text_version(*(f"{name} {entry.sha256}" for name, entry in entries.items()))

    def seal(self, asset: str, partition: str) -> str:
        """Enter the models that an item has made, and return the version of all its files."""
        for folder in folders_of(self.study, asset, partition):
            enter(self.study, folder)
        return self.version(asset, partition)

    def set_aside(self, asset: str, partition: str) -> list[str]:
        """Take an item's damaged files out of the way, so that it can be made again; return their names."""
        names = self.names(asset, partition)
        damaged = [*self.manifest.problems(names), *self._unreadable(asset, partition)]
        if damaged and asset in _TOGETHER:
            damaged = names
        if any(not self._is_table(name) for name in damaged):  # a model is of use as a whole
            damaged = sorted({*damaged, *(name for name in names if not self._is_table(name))})
        set_aside(self.study, self.manifest, damaged)
        return damaged

    def orphans(self, items: Iterable[tuple[str, str]]) -> list[str]:
        """Return the tables' files that are lost and that none of these items makes, history left out."""
        made = {name for asset, partition in items for name in self._tables(asset, partition)}
        tables = {self._prefix(record) for records in _TABLES.values() for record in records}
        return sorted(
            name
            for name in self._problems
            if name not in made
            and name.rpartition("/")[0] in tables
            and not self.manifest.path(name).exists()
        )

    def _tables(self, asset: str, partition: str) -> list[str]:
        return [
            f"{self._prefix(record)}/{part or partition or WHOLE}.parquet"
            for record, part in _TABLES.get(asset, {}).items()
        ]

    def _unreadable(self, asset: str, partition: str) -> list[str]:
        """Return those tables of an item that the manifest does not list and that are no Parquet."""
        unlisted = [name for name in self._tables(asset, partition) if name not in self.manifest.entries()]
        files = {name: self.manifest.path(name) for name in unlisted}
        return [name for name, file in files.items() if file.is_file() and not is_readable(file)]

    def _is_table(self, name: str) -> bool:
        return self.manifest.path(name).is_relative_to(self.study.home.tables)

    def _prefix(self, record: type[Record]) -> str:
        return f"{self._folder}/{record.table}"


def set_aside(study: Study, manifest: Manifest, names: Iterable[str]) -> None:
    """Move files out of the way and strike them out of the manifest."""
    chosen = list(names)
    if not chosen:
        return
    with manifest.removing(chosen):
        for name in chosen:
            path = manifest.path(name)
            if not path.is_relative_to(study.home.path) or not path.is_file():
                continue
            place = study.home.path / DAMAGED / path.relative_to(study.home.path)
            make_folder(place.parent)
            with suppress(FileNotFoundError):
                os.replace(path, place)
            sync_folder(path.parent)
            if path.is_relative_to(study.home.models) and not files_in(path.parent):
                shutil.rmtree(path.parent, ignore_errors=True)  # of the model nothing is left


# What went wrong beneath the program, in one sentence: a full disk, a failing one, a damaged history.


_FAILED = "disk i/o error"
_UNWRITABLE = ("unable to open", "readonly database")
"""What SQLite says where somebody may not write; it tells nothing of what the database holds."""
_IN_THE_WAY = {errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ELOOP}
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
        if number is not None and _where(one, home) == PRINTED:
            return Unavailable(
                f"{PRINTED} cannot be written where it is sent to ({_reason(one)}), so it is not whole; what "
                "was made is kept. Send it to a place with room and run the same command again."
            )
        if number in (errno.ENOSPC, errno.EDQUOT) or _says_full(one, home):
            return Unavailable(
                f"the disk is full ({_where(one, home)}): free some space and run the same command again; "
                "what was finished is kept, and it goes on from there."
            )
        if number == errno.ENAMETOOLONG:
            return InputError(
                f"a file's name has at most {LONGEST_NAME} bytes and its whole path 4,095, and this one has "
                f"more ({_beginning(one)}): give a shorter one."
            )
        if number in (errno.EMFILE, errno.ENFILE):
            return Unavailable(
                "too many files are open at once: allow more (`ulimit -n 4096`), and run the same command "
                "again."
            )
        if number == errno.ENOENT and "temporary directory" in str(one):
            return Unavailable(
                f"there is no folder for temporary files that can be written to ({one.args[1]}): have TMPDIR "
                "name one."
            )
        if number in _IN_THE_WAY and _is_within(one, home):
            return InputError(
                f"{_where(one, home)} is not what should lie there ({_reason(one)}): move it away and run "
                "the same command again."
            )
        if number == errno.EIO:
            return Unavailable(
                f"the disk fails ({_where(one, home)}: {one}): copy the home {home} to another one, look at "
                "the copy by `trace doctor --deep`, and run the same command there."
            )
        if number in _REFUSED and _is_within(one, home):
            return InputError(
                f"{_where(one, home)} cannot be opened ({_reason(one)}): make the home writable (to look at "
                "it: readable), or set TRACE_HOME to a folder of yours."
            )
        if _lacks_a_table(one):
            return Unavailable(
                f"Dagster's history in {home / 'dagster'} lacks tables. Another version of Dagster wrote it: "
                f"`DAGSTER_HOME={home / 'dagster'} dagster instance migrate`; or it is not whole: "
                f"{way_back(home)}."
            )
    database = next((one for one in causes if isinstance(one, sqlite3.DatabaseError)), None)
    return None if database is None else _history(database, home)


def _beginning(error: BaseException) -> str:
    name = getattr(error, "filename", None)
    shown = os.fsdecode(name) if isinstance(name, str | bytes) else ""
    return f"{shown[:80]}..." if shown else "see --verbose"


def damaged_database(folder: Path) -> Path | None:
    """Return the first SQLite database below a folder that is damaged, None when all are sound."""
    for file in sorted(folder.rglob("*.db")):
        try:
            with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as connection:
                (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.DatabaseError as error:
            if any(words in str(error).lower() for words in ("locked", *_UNWRITABLE, _FAILED)):
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
    if any(words in said for words in _UNWRITABLE):
        return InputError(
            f"Dagster's history in {home / 'dagster'} cannot be written ({said}): make the home writable "
            "with all that lies in it, or set TRACE_HOME to a folder of yours."
        )
    file = damaged_database(home / "dagster")
    if file is None and _FAILED in said.lower():
        return Unavailable(
            f"the disk takes nothing more of Dagster's history in {home / 'dagster'} ({said}): look whether "
            "it fails, or a quota or a limit on files (`ulimit -f`) is reached, and run the command again."
        )
    if file is None and "malformed" not in said and "not a database" not in said:
        return None
    return Unavailable(
        f"Dagster's history of this home is damaged ({file or home / 'dagster'}: {said}): {way_back(home)}."
    )


def _says_full(error: BaseException, home: Path) -> bool:
    said = str(error).lower()
    return any(words in said for words in FULL_DISK) or (
        # SQLite does not tell a disk that fails from one without room for the files beside a database.
        isinstance(error, sqlite3.DatabaseError) and _FAILED in said and is_full(home)
    )


def _lacks_a_table(error: BaseException) -> bool:
    said = str(error)
    return "dagster instance migrate" in said or (
        isinstance(error, sqlite3.OperationalError) and said.startswith("no such table")
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
