"""Content versions: equal content has an equal version, whenever and wherever it was made."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from trace_assets.records import Record

if TYPE_CHECKING:
    import pyarrow as pa


Starts = npt.NDArray[np.int64]
"""Where each group begins in a column, and last where the column ends; shape (groups + 1,)."""
Buffers = tuple[Starts, memoryview]
"""Bytes of a column and the offset at which each group's begin."""


def grouped_bytes(table: pa.Table, key: str, columns: Sequence[str]) -> Iterator[bytes]:
    """Yield, for each run of rows with one key, what decides about the content of their columns.

    Args:
        table: Sorted by the key, not empty.
        key: Column that says which rows belong together.
        columns: Those that count, in the order in which their bytes stand.
    """
    ends = pc.run_end_encode(_whole(table[key]), pa.int64()).run_ends
    # Not `to_numpy`, for which pyarrow imports pandas.
    starts = np.concatenate([[0], np.frombuffer(ends.buffers()[1], np.int64)[ends.offset :][: len(ends)]])
    parts = [part for name in columns for part in _buffers(_whole(table[name]), starts)]
    cuts = [(offsets.tolist(), data) for offsets, data in parts]
    for group in range(len(starts) - 1):
        yield b"".join(data[offsets[group] : offsets[group + 1]] for offsets, data in cuts)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _buffers(array: pa.Array, starts: Starts) -> Iterator[Buffers]:
    """Yield what decides about a column's content: the nulls, the lengths, the bytes."""
    kind = array.type
    nulls = _bits(array, 0) == 0 if array.null_count else None
    # Said also where there are none: another part of the same table may have some.
    yield starts, np.zeros(len(array), np.uint8).data if nulls is None else nulls.view(np.uint8).data
    if pa.types.is_struct(kind):
        for number in range(kind.num_fields):
            yield from _buffers(array.field(number), starts)
    elif pa.types.is_large_list(kind):
        offsets = _offsets(array)
        yield _lengths(offsets, starts)
        yield from _buffers(array.values, offsets[starts])
    elif pa.types.is_large_string(kind):
        offsets = _offsets(array)
        yield _lengths(offsets, starts)
        data = array.buffers()[2]
        yield offsets[starts], memoryview(data) if data is not None else memoryview(b"")
    elif pa.types.is_boolean(kind):
        yield _plain(_bits(array, 1), nulls, starts)
    else:
        width = kind.bit_width // 8
        data = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * width :][: len(array) * width]
        yield _plain(data.reshape(len(array), width), nulls, starts)


def _bits(array: pa.Array, buffer: int) -> npt.NDArray[np.uint8]:
    """Return a bitmap of an array as bytes of 0 and 1."""
    packed = np.frombuffer(array.buffers()[buffer], np.uint8)
    return np.unpackbits(packed, bitorder="little")[array.offset : array.offset + len(array)]


def _plain(values: npt.NDArray[np.uint8], nulls: npt.NDArray[np.bool_] | None, starts: Starts) -> Buffers:
    """Return a column of fixed width, shape (rows,) or (rows, bytes); what lies under nulls reads as 0."""
    if nulls is not None:
        values = values.copy()
        values[nulls] = 0
    width = values.shape[1] if values.ndim == 2 else 1
    return starts * width, np.ascontiguousarray(values).reshape(-1).data


def _offsets(array: pa.Array) -> Starts:
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(1, np.int64)
    return np.frombuffer(buffer, np.int64)[array.offset : array.offset + len(array) + 1]


def _lengths(offsets: Starts, starts: Starts) -> Buffers:
    lengths = np.diff(offsets)
    return starts * lengths.itemsize, lengths.view(np.uint8).data


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
        from trace_assets.store.content import grouped_bytes  # what only reads tables does without numpy

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
