"""A table too large for memory put in the order of its key: divided by ranges of it, each range sorted alone.

DuckDB sorts on disk too, but holds many rows at once whatever their size, and fails where they are large.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trace_assets.records import Record


def sorted_parts(raw: Path, record: type[Record], most: int) -> Iterator[pa.Table]:
    """Yield a table in the order of its key, in parts.

    Args:
        raw: A Parquet file in which rows that share the first key column stand together.
        record: Its record type, which gives the key.
        most: Bytes of a part; rows that share the first key column stay in one part however large they are.
    """
    order = [(name, "ascending") for name in record.key]
    with pq.ParquetFile(raw) as file, TemporaryDirectory(dir=raw.parent, prefix=".sort-") as name:
        ranges = _ranges(file, record.key[0], most)
        if len(ranges) <= 1:
            yield file.read().sort_by(order)
            return
        folder = Path(name)
        _divide(file, record.key[0], ranges, folder)
        for number in range(len(ranges)):
            path = folder / f"{number}.arrow"
            with pa.OSFile(str(path)) as source:
                table = pa.ipc.open_stream(source).read_all()
            path.unlink()
            yield table.sort_by(order)
            del table


def _ranges(file: pq.ParquetFile, key: str, most: int) -> list[str]:
    """Return the first key of each range, ascending."""
    sizes: dict[str, int] = {}
    for number in range(file.num_row_groups):
        table = file.read_row_group(number).combine_chunks()
        start = 0
        for end in _run_ends(table[key]):
            name = table[key][start].as_py()
            sizes[name] = sizes.get(name, 0) + table.slice(start, end - start).nbytes
            start = end
        del table
    firsts: list[str] = []
    filled = 0
    for name in sorted(sizes):
        if not firsts or filled + sizes[name] > most:
            firsts.append(name)
            filled = 0
        filled += sizes[name]
    return firsts


def _run_ends(column: pa.ChunkedArray) -> list[int]:
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], whole.type)
    ends: list[int] = pc.run_end_encode(whole, pa.int64()).run_ends.to_pylist() if len(whole) else []
    return ends


def _divide(file: pq.ParquetFile, key: str, firsts: list[str], folder: Path) -> None:
    """Write the rows of each range to a file of its own, `<number>.arrow`."""
    bounds = pl.Series(firsts, dtype=pl.String)
    with ExitStack() as stack:
        writers: dict[int, pa.RecordBatchWriter] = {}
        for number in range(file.num_row_groups):
            table = file.read_row_group(number)
            places = bounds.search_sorted(pl.Series(table[key]), side="right") - 1
            for place in places.unique().to_list():
                if place not in writers:
                    sink = stack.enter_context(pa.OSFile(str(folder / f"{place}.arrow"), "wb"))
                    writers[place] = stack.enter_context(pa.ipc.new_stream(sink, table.schema))
                writers[place].write_table(table.filter((places == place).to_arrow()))
            del table, places
