"""Parquet: dictionaries, run lengths, lists without end, footers that lie, damaged pages."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.untrusted.bombs import LEAST, MB, bomb

CHAT = json.dumps([{"role": "user", "content": "hi"}])


def rows(n: int, start: int = 0) -> dict[str, Any]:
    """Return columns of usable rows."""
    return {
        "id": [f"good-row-number-{number:05d}" for number in range(start, start + n)],
        "messages": [CHAT] * n,
        "reward": [1.0] * n,
    }


def groups(path: Path, *tables: pa.Table, **options: Any) -> None:
    """Write tables of one schema as a row group each."""
    with pq.ParquetWriter(path, tables[0].schema, **options) as writer:
        for table in tables:
            writer.write_table(table, row_group_size=1 << 30)


def repeated(value: str, n: int) -> pa.Array:
    """Return a text n times without holding it so often."""
    indices = pa.array(np.zeros(n, np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array([value]))


@bomb("parquet", 19, "unfolds to more than")
def one_text_two_thousand_times(path: Path) -> None:
    """5 kB; unfolded 8 GB."""
    text = json.dumps([{"role": "user", "content": "x" * 4 * MB}])
    table = pa.table({"messages": repeated(text, 2000)})
    few = pa.table({"messages": repeated(CHAT, 3)})
    groups(path, few, table, compression="zstd", write_statistics=False)


@bomb("parquet", 3, "memory")
def a_text_that_does_not_fit(path: Path) -> None:
    text = '[{"role": "user", "content": "' + "x" * 160 * MB + '"}]'
    groups(
        path,
        pa.table({"messages": pa.array([CHAT] * 2)}),
        pa.table({"messages": pa.array([text])}),
        pa.table({"messages": pa.array([CHAT])}),
        compression="zstd",
        write_statistics=False,
        use_dictionary=False,
    )


def with_lists(values: pa.Array) -> Iterator[pa.Table]:
    good = rows(2)
    yield pa.table({**good, "more": pa.array([[], []], values.type)})
    yield pa.table({**rows(1, 10), "more": values})
    yield pa.table({**rows(2, 20), "more": pa.array([[], []], values.type)})


@bomb("parquet", 4, "memory")
def a_list_without_end(path: Path) -> None:
    """Forty million zeros in one row, run-length encoded."""
    n = 40_000_000
    values = pa.ListArray.from_arrays(pa.array([0, n], pa.int32()), pa.array(np.zeros(n, np.int64)))
    groups(path, *with_lists(values), compression="zstd", write_statistics=False)


@bomb("parquet", 4, "memory")
def a_list_of_nothing(path: Path) -> None:
    """Nulls, which take no byte each until somebody counts them."""
    n = 60_000_000
    values = pa.ListArray.from_arrays(pa.array([0, n], pa.int32()), pa.nulls(n))
    groups(path, *with_lists(values), compression="zstd", write_statistics=False)


@bomb("parquet", 4, "memory")
def a_list_of_one_text(path: Path) -> None:
    n = 3_000_000
    texts = repeated("y" * 10_000, n)
    values = pa.ListArray.from_arrays(pa.array([0, n], pa.int32()), texts)
    plain = pa.list_(texts.type)
    tables = [
        pa.table(
            {**rows(2), "more": pa.ListArray.from_arrays(pa.array([0, 0, 0], pa.int32()), texts.slice(0, 0))}
        ),
        pa.table({**rows(1, 10), "more": values}),
        pa.table(
            {
                **rows(2, 20),
                "more": pa.ListArray.from_arrays(pa.array([0, 0, 0], pa.int32()), texts.slice(0, 0)),
            }
        ),
    ]
    assert tables[0].schema.field("more").type == plain
    groups(path, *tables, compression="zstd", write_statistics=False)


@bomb("parquet", None, "more trajectories and tasks than can be remembered", allowed=LEAST)
def a_hundred_million_rows(path: Path) -> None:
    """Each of them nothing at all."""
    n = 100_000_000
    groups(path, pa.table({"messages": repeated("[]", n)}), compression="zstd", write_statistics=False)


def compact(*fields: tuple[int, int, bytes]) -> bytes:
    """Return a Thrift struct in the compact protocol: (field, type, encoded value)."""
    out, last = b"", 0
    for number, kind, value in fields:
        out += bytes([((number - last) << 4) | kind]) + value
        last = number
    return out + b"\0"


def varint(n: int) -> bytes:
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def zigzag(n: int) -> bytes:
    return varint(n << 1 if n >= 0 else (-n << 1) - 1)


def text(value: str) -> bytes:
    return varint(len(value)) + value.encode()


def footer(elements: list[bytes], n_elements: int | None = None, groups: bytes = b"") -> bytes:
    """Return a Parquet file of a footer alone."""
    n = len(elements) if n_elements is None else n_elements
    listed = (bytes([0xFC]) + varint(n) if n > 14 else bytes([n << 4 | 12])) + b"".join(elements)
    body = compact((1, 5, zigzag(1)), (2, 9, listed), (3, 6, zigzag(0)), (4, 9, groups or b"\x0c"))
    return b"PAR1" + body + struct.pack("<I", len(body)) + b"PAR1"


@bomb("parquet", 0, "cannot be read")
def a_footer_of_types_in_types(path: Path) -> None:
    root = compact((4, 8, text("schema")), (5, 5, zigzag(1)))
    inner = compact((3, 5, zigzag(1)), (4, 8, text("a")), (5, 5, zigzag(1)))
    leaf = compact((1, 5, zigzag(1)), (3, 5, zigzag(1)), (4, 8, text("messages")))
    path.write_bytes(footer([root, *[inner] * 500_000, leaf]))


@bomb("parquet", 0, "cannot be read")
def a_footer_that_promises_columns(path: Path) -> None:
    root = compact((4, 8, text("schema")), (5, 5, zigzag(1)))
    path.write_bytes(footer([root], n_elements=2**31 - 1))


@bomb("parquet", 0)
def a_hundred_thousand_columns(path: Path) -> None:
    root = compact((4, 8, text("schema")), (5, 5, zigzag(100_000)))
    leaves = [compact((1, 5, zigzag(1)), (3, 5, zigzag(1)), (4, 8, text(f"c{n}"))) for n in range(100_000)]
    path.write_bytes(footer([root, *leaves]))


@bomb("parquet", 0, "cannot be read")
def a_negative_footer(path: Path) -> None:
    path.write_bytes(b"PAR1" + b"\0" * 100 + struct.pack("<i", -5) + b"PAR1")


@bomb("parquet", 0, "cannot be read")
def a_footer_of_two_gigabytes(path: Path) -> None:
    path.write_bytes(b"PAR1" + b"\0" * 100 + struct.pack("<I", 2**31 - 1) + b"PAR1")


@bomb("parquet", 200, "left out")
def a_damaged_page(path: Path) -> None:
    """Of three row groups the one in the middle is damaged: the others are read."""
    tables = [pa.table(rows(100, start)) for start in (0, 1000, 2000)]
    groups(path, *tables, compression="zstd", use_dictionary=False, write_statistics=False)
    begin = pq.read_metadata(path).row_group(1).column(1).data_page_offset
    data = bytearray(path.read_bytes())
    data[begin + 20 : begin + 60] = bytes(40)
    path.write_bytes(data)


@bomb("parquet", None)
def lying_page_sizes(path: Path) -> None:
    """Flipped bytes everywhere in the pages: whatever they then say of their sizes."""
    groups(path, pa.table(rows(2000)), compression="snappy", use_dictionary=True)
    data = bytearray(path.read_bytes())
    end = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
    for place in random.Random(3).sample(range(4, end), 40):
        data[place] ^= 0xFF
    path.write_bytes(data)


@bomb("parquet", 2)
def dates_bytes_and_decimals(path: Path) -> None:
    import datetime
    from decimal import Decimal

    table = pa.table(
        {
            **rows(2),
            "date": [datetime.datetime(2026, 1, 1)] * 2,
            "raw": [b"\xff\x00"] * 2,
            "price": [Decimal("1.5"), None],
            "nan": [float("nan"), float("inf")],
            "map": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
        }
    )
    pq.write_table(table, path)
