"""Rows of a Parquet file as lines of JSON, from a process of its own (`python -m` with this module's name).

What a Parquet file unfolds to is known only when it has been unfolded: five kilobytes may hold one long text
a million times, or lists without end. A library written in C++ does that, and ends the process when memory
runs out or its stack does. So it happens here, under a limit that the system enforces, and what comes out are
lines of a known length. The other side is `trace_assets.formats.parquet`.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

GROUP, ROW, REFUSED, UNFIT, END = b"g", b"r", b"x", b"u", b"e"
"""What a line begins with: a row group's number, a row, rows that are left out, why no row can be had, and
the end of the file."""
_BATCHES = (256, 16, 1)
"""Rows that are unfolded at once; fewer when they do not fit."""
_SMALL = 1 << 20
"""Bytes of rows that are made into Python's values together."""
_CPU_SECONDS = 300
"""Processor time for a small file; each megabyte gives a second more."""


def main() -> None:
    """Write the rows of a file to standard output.

    The arguments are the file, the memory that unfolding may take, the longest line, the row group to begin
    with, and the columns to leave out.
    """
    path, memory, longest, first, *left_out = sys.argv[1:]
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    _limit(path, int(memory))
    out = sys.stdout.buffer
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            names = [name for name in file.schema_arrow.names if name not in left_out]
            for line in lines(file, names, int(first), int(longest)):
                out.write(line + b"\n")
                if line[:1] == GROUP:
                    out.flush()
    except (MemoryError, pa.ArrowException, ValueError, OSError) as error:
        out.write(UNFIT + _json(reason(error)) + b"\n")
    out.flush()


def _limit(path: str, memory: int) -> None:
    import os

    with open("/proc/self/statm") as state:
        now = int(state.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + memory, now + memory))
    seconds = _CPU_SECONDS + os.path.getsize(path) // 1_000_000
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def lines(file: pq.ParquetFile, names: Sequence[str], first: int, longest: int) -> Iterator[bytes]:
    """Yield the lines that stand for a file's rows, from one of its row groups on."""
    if "messages" not in names:
        shown = ", ".join(repr(name)[:40] for name in names[:8])
        yield UNFIT + _json(f"it has no column 'messages', but {shown or 'none at all'}")
        return
    counts = [max(0, file.metadata.row_group(number).num_rows) for number in range(file.num_row_groups)]
    begin = sum(counts[:first])
    for number, count in enumerate(counts[first:], first):
        yield GROUP + str(number).encode()
        sent = yield from _group(file, names, number, begin, longest)
        begin += max(count, sent)
    yield END


def _group(
    file: pq.ParquetFile, names: Sequence[str], number: int, begin: int, longest: int
) -> Generator[bytes, None, int]:
    """Yield the rows of one group; return how many were met."""
    sent, why = 0, ""
    for size in _BATCHES:
        at = 0
        try:
            for batch in file.iter_batches(size, [number], names, use_threads=False):
                rest = batch.slice(max(0, sent - at))
                at += batch.num_rows
                del batch
                values = _values(rest)
                for place in range(rest.num_rows):
                    value = values[place : place + 1] or rest.slice(place, 1)
                    yield _line(value, begin + sent, longest)
                    sent += 1
                del rest, values
        except (MemoryError, pa.ArrowMemoryError) as error:
            why = reason(error)
        except (pa.ArrowException, OSError, ValueError) as error:
            why = reason(error)
            break
        else:
            return sent
        gc.collect()
    count = file.metadata.row_group(number).num_rows
    yield REFUSED + _json([begin + sent, max(begin + sent, begin + count - 1), why])
    return sent


def _values(batch: pa.RecordBatch) -> list[Any]:
    """Return the rows of a small batch; none when they are large, or one of them cannot be had."""
    if batch.nbytes > _SMALL:
        return []
    try:
        values: list[Any] = batch.to_pylist()
    except (ValueError, OverflowError, RecursionError):
        return []
    return values


def _line(one: list[Any] | pa.RecordBatch, row: int, longest: int) -> bytes:
    try:
        (value,) = one if isinstance(one, list) else one.to_pylist()
        text = _json(value)
    except (ValueError, OverflowError, RecursionError) as error:  # MemoryError is for the batch
        return REFUSED + _json([row, row, reason(error)])
    if len(text) > longest:
        return REFUSED + _json([row, row, len(text)])
    return ROW + str(row).encode() + b" " + text


def reason(error: BaseException) -> str:
    """Return what went wrong, as part of a sentence."""
    if isinstance(error, MemoryError | pa.ArrowMemoryError):
        return "memory"
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")[:300]


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, default=_other).encode("utf-8", "replace")


def _other(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


if __name__ == "__main__":
    main()
