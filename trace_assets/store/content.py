"""Content versions: equal content has an equal version, whenever and wherever it was made."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from trace_assets.records import Record

if TYPE_CHECKING:
    import pyarrow as pa


def frame_version(frame: pl.DataFrame, record: type[Record]) -> str:
    """Return the content version of a table.

    Row order and volatile columns (times) do not count; column names do.

    Returns:
        16 hexadecimal digits of a SHA-256.
    """
    rows = RowSum(record, frame.columns)
    rows.add(frame)
    return rows.version()


def folder_version(folder: Path, names: Iterable[str] | None = None) -> str:
    """Return the content version of a folder's files.

    Args:
        folder: A folder; hidden files and folders are left out.
        names: Relative paths to consider; None takes every file.
    """
    digest = hashlib.sha256()
    chosen = (
        sorted(names)
        if names is not None
        else sorted(
            file.relative_to(folder).as_posix()
            for file in folder.rglob("*")
            if file.is_file() and not any(part.startswith(".") for part in file.relative_to(folder).parts)
        )
    )
    for name in chosen:
        digest.update(name.encode() + b"\0")
        with (folder / name).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]


def text_version(*parts: str) -> str:
    """Return one version for several texts, in order.

    >>> text_version("a", "b") == text_version("ab")
    False
    """
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.hexdigest()[:16]


# The content version of a table that comes in parts: hashes of groups of rows, added up.


class RowSum:
    """The content version of a table whose rows come in parts, in any order.

    Rows that share the first key column are hashed together, so they must come in one part. The hashes are
    added up (mod 2^256): parts may be summed in any order, in other processes too, and merged. Where a group
    has many rows its columns are hashed as Arrow lays them out, lengths and nulls included, without making
    a text of each row.
    """

    def __init__(self, record: type[Record], columns: Iterable[str]) -> None:
        self.columns = sorted(name for name in columns if name not in record.volatile)
        self.key = list(record.key)
        self.total = 0
        self.rows = 0

    def add(self, frame: pl.DataFrame) -> None:
        """Count the rows of one more part."""
        if not frame.height:
            return
        if len(self.key) > 1:
            self.add_sorted(frame.sort(self.key, nulls_last=True).to_arrow())
            return
        # Every row is a group of its own: many columns, few rows.
        # Not `splitlines`: it also breaks at U+2028 and its like, which stand in texts as they are, and rows
        # whose pieces changed places would be the same rows.
        lines = frame.select(self.columns).write_ndjson().removesuffix("\n").split("\n")
        self.merge(sum(_number(hashlib.sha256(line.encode())) for line in lines), frame.height)

    def add_sorted(self, table: pa.Table) -> None:
        """Count the rows of one more part that is sorted by a key of several columns."""
        if not table.num_rows:
            return
        from trace_assets.store.column_bytes import grouped_bytes  # what only reads tables does without numpy

        total = sum(
            _number(hashlib.sha256(group)) for group in grouped_bytes(table, self.key[0], self.columns)
        )
        self.merge(total, table.num_rows)

    def merge(self, total: int, rows: int) -> None:
        """Count what another sum counted."""
        self.total = (self.total + total) % (1 << 256)
        self.rows += rows

    def version(self) -> str:
        """Return 16 hexadecimal digits of a SHA-256 over the column names, the row count and the sum."""
        text = f"{','.join(self.columns)}\n{self.rows}\n{self.total:064x}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _number(digest: hashlib._Hash) -> int:
    return int.from_bytes(digest.digest(), "little")
