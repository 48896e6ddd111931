"""The tables: one Parquet file a partition, written whole or not at all."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TypeVar

import polars as pl

from trace_assets.errors import InputError
from trace_assets.records import Record
from trace_assets.records.table import from_frame, polars_schema, to_frame
from trace_assets.store.content import frame_version
from trace_assets.store.files import Home, make_folder, replacing_file, sync_folder
from trace_assets.store.leases import require_there
from trace_assets.store.manifest import ALTERED, MANIFEST, Entry, Manifest, manifest_of

R = TypeVar("R", bound=Record)

WHOLE = "all"
"""File name of a table that has no partitions."""

ENOUGH = 1 << 30
"""A query of SQL compares files of up to so many bytes to their end."""

READ_AT_ONCE = 1 << 28
"""A file of at most so many bytes is read into memory, compared and parsed from there."""

ROW_GROUP_ROWS = 65_536
"""Rows are in key order, so a query for one trajectory reads one group of this size; scans do not mind."""


class Store:
    """Reads and writes record tables under one folder.

    Any number of readers and writers may work at once: a file is written under another name and put in place
    by one rename, so a reader sees the old table or the new one. With a manifest every file is compared with
    what was written whenever it is read, and a file that is gone is an error, never a table with fewer rows.

    Args:
        folder: Where the tables lie.
        manifest: What they shall be; None takes the manifest beside the folder, where there is one.
        restored_by: What a person does when a file is lost; None says it by the record.
    """

    def __init__(
        self, folder: Path, manifest: Manifest | None = None, restored_by: str | None = None
    ) -> None:
        if manifest is None and (folder.parent / MANIFEST).is_file():
            manifest = manifest_of(folder.parent)
        self.folder, self.manifest, self._restored_by = folder, manifest, restored_by

    @classmethod
    def of(cls, home: Home) -> Store:
        """Return the tables of a home."""
        return cls(home.tables, manifest_of(home.path))

    def path(self, record: type[Record], partition: str = WHOLE) -> Path:
        """Return the file of a table's partition, whether it exists or not."""
        if not is_partition(partition):
            raise InputError(f"'{partition}' cannot name a partition: use letters, digits, '.', '_' and '-'.")
        return self.folder / record.table / f"{partition}.parquet"

    def partitions(self, record: type[Record]) -> list[str]:
        """Return the partitions of a table that have been written, sorted; also one whose file was lost."""
        folder = self.folder / record.table
        there = {file.stem for file in folder.glob("*.parquet")}
        if self.manifest is None:
            return sorted(there)
        listed = {Path(name) for name in self.manifest.names_in(folder)}
        return sorted(there | {name.stem for name in listed if name.suffix == ".parquet"})

    def write(self, rows: Iterable[R], record: type[R], partition: str = WHOLE) -> str:
        """Replace a partition of a table.

        Args:
            rows: The partition's rows; none at all is a table without rows, not a missing one.
            record: Their type.
            partition: Partition key.

        Returns:
            The content version of what was written.

        Raises:
            InputError: Two rows have the same key.
        """
        return self.write_frame(to_frame(rows, record), record, partition)

    def write_frame(self, frame: pl.DataFrame, record: type[Record], partition: str = WHOLE) -> str:
        """Replace a partition of a table by a frame that has its columns and order; see `write`."""
        if record.key and frame.height:
            doubled = frame.filter(pl.struct(record.key).is_duplicated())
            if doubled.height:
                first = {name: doubled[name][0] for name in record.key}
                raise InputError(
                    f"table '{record.table}' ({partition}) would hold {doubled.height} rows that share a "
                    f"key, such as {first}; each {' + '.join(record.key)} may occur once."
                )
        version = frame_version(frame, record)
        path = self.path(record, partition)
        with self.replacing(path) as building:
            frame.write_parquet(
                building,
                compression="zstd",
                row_group_size=ROW_GROUP_ROWS,
                metadata={"trace.version": version},
            )
        return version

    def replacing(self, path: Path) -> AbstractContextManager[Path]:
        """Put a file of a table in place when the body has written it; see `replacing_file`."""
        if self.manifest is not None:
            require_there(self.manifest.root)
        make_folder(path.parent)
        if self.manifest is None:
            return replacing_file(path)
        return replacing_file(path, partial(self.manifest.placing, self.manifest.name(path)))

    def adopt(self, file: Path, record: type[Record], partition: str = WHOLE) -> str:
        """Replace a partition by a finished file of the same table in another store.

        The file is linked where the file system allows it (files of a store are never written in place), and
        copied otherwise.

        Returns:
            Its content version.

        Raises:
            InputError: It is no file of a store: it has no version.
        """
        path = self.path(record, partition)
        version = pl.read_parquet_metadata(file).get("trace.version")
        if version is None:
            raise InputError(f"{file} holds no content version; ingest or materialize it again.")
        with self.replacing(path) as building:
            try:
                os.link(file, building)
            except OSError:
                shutil.copyfile(file, building)
        return version

    def has(self, record: type[Record], partition: str = WHOLE) -> bool:
        """Whether a partition has been written; also one whose file was lost."""
        path = self.path(record, partition)
        return path.is_file() or (
            self.manifest is not None and self.manifest.name(path) in self.manifest.entries()
        )

    def frame(self, record: type[Record], partition: str | None = None) -> pl.DataFrame:
        """Return a table as a polars frame.

        Args:
            record: The table's record type.
            partition: One partition; None reads all of them.

        Returns:
            The rows in key order within a partition; an empty frame of the right schema when nothing was
            written yet.

        Raises:
            InputError: A file is gone, or is not what was written.
        """
        keys = self.whole(record) if partition is None else [partition]
        frames = [frame for key in keys if (frame := self._load(record, key)) is not None]
        if not frames:
            return pl.DataFrame(schema=polars_schema(record))
        return pl.concat(frames, how="diagonal_relaxed")

    def whole(self, record: type[Record]) -> list[str]:
        """Return the partitions of which `frame` makes a whole table.

        Raises:
            InputError: Another file lies beside them that doubles their rows.
        """
        if said := self._copied(record):
            raise InputError(said)
        return self.partitions(record)

    def _load(self, record: type[Record], partition: str) -> pl.DataFrame | None:
        """Return a partition's rows from the bytes that were compared, None when it was never written."""
        path = self.path(record, partition)
        try:
            found = path.stat()
            if not stat.S_ISREG(found.st_mode):  # reading a pipe would wait for a writer
                self.check(record, partition)
                raise InputError(f"table '{record.table}': {path} is no file; move it away.")
            if found.st_size > READ_AT_ONCE:
                self.check(record, partition)
                return _parsed(path, path)
            content = path.read_bytes()
            if self.manifest is not None and not self.manifest.holds(self.manifest.name(path), content):
                with self.manifest.undisturbed():
                    content = path.read_bytes()
                    if not self.manifest.holds(self.manifest.name(path), content):
                        raise self._lost(record, path, self.manifest.problem(self.manifest.name(path)))
        except OSError as error:
            self.check(record, partition)
            if isinstance(error, FileNotFoundError | NotADirectoryError):
                return None
            raise InputError(
                f"table '{record.table}': {path} cannot be read ({error.strerror}); move it away and run "
                "`trace sync`, which makes it again."
            ) from error
        return _parsed(content, path)

    def check(self, record: type[Record], partition: str, whole: int | None = None) -> None:
        """Make sure that a partition is as it was written, or was never written.

        Args:
            record: The table's record type.
            partition: The partition.
            whole: Compare files of so many bytes to their end, larger ones by size and ends; None compares
                all to their end. What nothing has touched is compared once a process.

        Raises:
            InputError: Its file is gone, or is not what was written.
        """
        if self.manifest is None:
            return
        path = self.path(record, partition)
        if said := self.manifest.unchanged(self.manifest.name(path), whole):
            raise self._lost(record, path, said)

    def _lost(self, record: type[Record], path: Path, said: str) -> InputError:
        return InputError(
            f"table '{record.table}': {path} {said or ALTERED}; {self._restored_by or way_back(record)}."
        )

    def problem(self, record: type[Record]) -> str:
        """Say of a table what is wrong and how it comes back, nothing when all is well; see `check`."""
        for partition in self.partitions(record):
            try:
                self.check(record, partition, ENOUGH)
            except InputError as error:
                return str(error)
        return self._copied(record)

    def _copied(self, record: type[Record]) -> str:
        """Say so when a file lies in a table's folder whose rows the table has already; see `doubles`."""
        if self.manifest is None:
            return ""
        for file in self._without_entry(record):
            if doubles(self.manifest, file):
                with self.manifest.undisturbed():  # it may be about to get its entry
                    if of := doubles(self.manifest, file):
                        return f"table '{record.table}': {file} doubles rows of {of} beside it; move it away."
        return ""

    def _without_entry(self, record: type[Record]) -> list[Path]:
        """Return the files of a table that the manifest does not list, sorted."""
        if self.manifest is None:
            return []
        known, name = self.manifest.entries(), self.manifest.name
        return sorted(one for one in (self.folder / record.table).glob("*.parquet") if name(one) not in known)

    def unlisted(self, record: type[Record]) -> list[Path]:
        """Return a table's files that were put there by other means than this program, or before a power cut.

        Their rows count: what a power cut leaves is whole. Until a sync has entered them nothing says so.
        """
        if self.manifest is None or not self.manifest.is_there() or not self._without_entry(record):
            return []  # homes of earlier versions list nothing
        with self.manifest.undisturbed():  # they may be about to get their entries
            return self._without_entry(record)

    def scan(self, record: type[Record], partition: str = WHOLE) -> pl.LazyFrame:
        """Return a partition that is there, to read parts of it; see `frame`."""
        self.check(record, partition)
        return pl.scan_parquet(self.path(record, partition), glob=False)

    def read(self, record: type[R], partition: str | None = None) -> list[R]:
        """Return a table as records; see `frame`."""
        return from_frame(self.frame(record, partition), record)

    def version(self, record: type[Record], partition: str = WHOLE) -> str | None:
        """Return the content version of a partition, None when it was not written."""
        self.check(record, partition)
        path = self.path(record, partition)
        if not path.is_file():
            return None
        return pl.read_parquet_metadata(path).get("trace.version")

    def drop(self, record: type[Record], partition: str) -> None:
        """Remove a partition when it is there."""
        path = self.path(record, partition)
        with self.manifest.removing([self.manifest.name(path)]) if self.manifest else nullcontext():
            if path.exists():
                path.unlink()
                sync_folder(path.parent)


def doubles(manifest: Manifest, file: Path) -> str:
    """Return the file of a table that another one beside it, which nobody here wrote, repeats; else nothing.

    A file without an entry may have been put in place just before a power cut. It is none of these when it is
    equal to another one and holds rows, or stands beside the one file of a table that has no partitions.
    """
    known = manifest.entries()
    if manifest.name(file) in known or not file.is_file():
        return ""
    if manifest.name(file.with_stem(WHOLE)) in known:
        return file.with_stem(WHOLE).name
    size = file.stat().st_size
    alike = [name for name in manifest.names_in(file.parent) if known[name].size == size]
    if not alike:
        return ""
    found = Entry.of(file)
    same = [name for name in alike if known[name] == found]
    if (
        not same
        or not is_readable(file)
        or not pl.scan_parquet(file, glob=False).select(pl.len()).collect().item()
    ):
        return ""
    return Path(same[0]).name


def is_partition(name: str) -> bool:
    """Whether a partition of a table may be called so.

    >>> is_partition("run-1"), is_partition("_run"), is_partition("../run"), is_partition("a b")
    (True, False, False, False)
    """
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._=+-]*", name) is not None


def is_readable(file: Path) -> bool:
    """Whether a file is Parquet, as far as its footer tells."""
    try:
        pl.read_parquet_metadata(file)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        return False
    return True


def way_back(record: type[Record]) -> str:
    """Say how a table that was lost comes back."""
    if record.restored_by:
        return f"run `{record.restored_by}`, which makes it again"
    return (
        "it is history that nothing makes again: put the file back from a backup, or go on without it by "
        "`trace doctor --accept-losses`"
    )


def _parsed(source: Path | bytes, path: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(source, glob=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"{path} cannot be read ({reason}); move it away and run `trace sync`, which makes it again."
        ) from error
