"""The tables: one Parquet file a partition, written whole or not at all."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import polars as pl

from trace_assets.errors import InputError
from trace_assets.records import Record
from trace_assets.records.table import from_frame, polars_schema, to_frame
from trace_assets.store.content import frame_version
from trace_assets.store.home import replacing_file

R = TypeVar("R", bound=Record)

WHOLE = "all"
"""File name of a table that has no partitions."""

ROW_GROUP_ROWS = 65_536
"""Rows are in key order, so a query for one trajectory reads one group of this size; scans do not mind."""


class Store:
    """Reads and writes record tables under one folder.

    Any number of readers and writers may work at once: a file is written under another name and put in place
    by one rename, so a reader sees the old table or the new one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, record: type[Record], partition: str = WHOLE) -> Path:
        """Return the file of a table's partition, whether it exists or not."""
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._=+-]*", partition):
            raise InputError(f"'{partition}' cannot name a partition: use letters, digits, '.', '_' and '-'.")
        return self.folder / record.table / f"{partition}.parquet"

    def partitions(self, record: type[Record]) -> list[str]:
        """Return the partitions of a table that have been written, sorted."""
        return sorted(file.stem for file in (self.folder / record.table).glob("*.parquet"))

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
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing_file(path) as partial:
            frame.write_parquet(
                partial,
                compression="zstd",
                row_group_size=ROW_GROUP_ROWS,
                metadata={"trace.version": version},
            )
        return version

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
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing_file(path) as partial:
            try:
                os.link(file, partial)
            except OSError:
                shutil.copyfile(file, partial)
        return version

    def has(self, record: type[Record], partition: str = WHOLE) -> bool:
        """Whether a partition has been written."""
        return self.path(record, partition).is_file()

    def frame(self, record: type[Record], partition: str | None = None) -> pl.DataFrame:
        """Return a table as a polars frame.

        Args:
            record: The table's record type.
            partition: One partition; None reads all of them.

        Returns:
            The rows in key order within a partition; an empty frame of the right schema when nothing was
            written yet.
        """
        keys = self.partitions(record) if partition is None else [partition]
        files = [self.path(record, key) for key in keys]
        frames = [pl.read_parquet(file) for file in files if file.is_file()]
        if not frames:
            return pl.DataFrame(schema=polars_schema(record))
        return pl.concat(frames, how="diagonal_relaxed")

    def read(self, record: type[R], partition: str | None = None) -> list[R]:
        """Return a table as records; see `frame`."""
        return from_frame(self.frame(record, partition), record)

    def version(self, record: type[Record], partition: str = WHOLE) -> str | None:
        """Return the content version of a partition, None when it was not written."""
        path = self.path(record, partition)
        if not path.is_file():
            return None
        return pl.read_parquet_metadata(path).get("trace.version")

    def drop(self, record: type[Record], partition: str) -> None:
        """Remove a partition when it is there."""
        self.path(record, partition).unlink(missing_ok=True)
