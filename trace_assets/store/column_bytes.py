"""Rows of a table as bytes, as Arrow lays out their columns: what content versions are hashes of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

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
