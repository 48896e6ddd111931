"""How rows leave `trace sql`: a table, CSV, JSON or Parquet, to the terminal, a pipe or a file."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import IO, cast

import polars as pl
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trace_assets.cli.options import console as make_console
from trace_assets.errors import InputError
from trace_assets.store.files import replacing_file
from trace_assets.untrusted.printable import printable

CELL_CHARACTERS = 300
"""What a printed table shows of one value at most; the other formats hold it whole."""
COLUMN_CHARACTERS = 12
"""A column that needs more may be folded, but not below this."""


class Format(StrEnum):
    """How rows are written."""

    table = "table"
    csv = "csv"
    json = "json"
    parquet = "parquet"


def format_of(asked: Format | None, output: Path | None) -> Format:
    """Return the format: the one asked for, else the one that the file's name ends with, else a table."""
    if asked is not None or output is None:
        return asked or Format.table
    ending = output.suffix.lstrip(".").lower()
    return Format(ending) if ending in set(Format) else Format.table


class _Terminal:
    """Standard output where a person reads it: rows are spelt out as everything else that is printed."""

    def write(self, content: bytes) -> int:
        sys.stdout.buffer.write(printable(content.decode("utf-8", "backslashreplace")).encode())
        return len(content)


@contextmanager
def destination(output: Path | None) -> Iterator[IO[bytes]]:
    """Open where the rows go: standard output, or a file that is put in place when all has been written.

    Raises:
        InputError: The file cannot be written.
    """
    if output is None:
        if sys.stdout.isatty():
            yield cast(IO[bytes], _Terminal())
        else:
            yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        with replacing_file(output) as partial, partial.open("wb") as file:
            yield file
    except OSError as error:
        raise InputError(
            f"{output} cannot be written ({error.strerror}); give --output a file in a folder that exists "
            "and that you may write to."
        ) from error


def write_csv(frames: Iterable[pl.DataFrame], file: IO[bytes]) -> int:
    """Write rows as CSV with one header; nested columns are JSON text. Returns the number of rows."""
    rows = 0
    for number, frame in enumerate(frames):
        file.write(flat(frame).write_csv(include_header=number == 0).encode())
        rows += frame.height
    return rows


def write_json(frames: Iterable[pl.DataFrame], file: IO[bytes]) -> int:
    """Write rows as one JSON array of objects. Returns the number of rows.

    Numbers that JSON does not have are text: "NaN", "Infinity" and "-Infinity".
    """
    rows = 0
    file.write(b"[")
    for frame in frames:
        for row in whole_numbers(frame).iter_rows(named=True):
            text = _json(row)
            file.write((",\n " if rows else "\n ").encode() + text.encode())
            rows += 1
    file.write(b"\n]\n" if rows else b"]\n")
    return rows


def write_parquet(frames: Iterable[pl.DataFrame], file: IO[bytes]) -> int:
    """Write rows as Parquet. Returns the number of rows.

    Raises:
        InputError: The file is a terminal, which binary rows would spoil.
    """
    if isinstance(file, _Terminal) or file.isatty():
        raise InputError("Parquet is binary and standard output is a terminal: give --output FILE.parquet.")
    import pyarrow.parquet as parquet

    every = iter(frames)
    first = next(every).to_arrow()
    rows = 0
    with parquet.ParquetWriter(file, first.schema, compression="zstd") as writer:
        for table in chain([first], (frame.to_arrow() for frame in every)):
            writer.write_table(table.cast(first.schema))
            rows += table.num_rows
    return rows


def print_table(frames: Iterable[pl.DataFrame], console: Console, limit: int) -> int:
    """Print the first `limit` rows as a table and say so when there are more; 0 prints all.

    Columns that do not fit beside each other stand below each other, one block a row.

    Returns:
        The number of rows printed.
    """
    kept: list[pl.DataFrame] = []
    height = 0
    for frame in frames:
        kept.append(frame)
        height += frame.height
        if limit and height > limit:
            break
    shown = whole_numbers(pl.concat(kept))
    more = bool(limit) and shown.height > limit
    shown = shown.head(limit) if limit else shown
    cells = [[_cell(value) for value in row] for row in shown.iter_rows()]
    if _needed(shown.columns, cells) > console.width:
        _print_blocks(shown.columns, cells, console)
    else:
        table = Table(show_edge=False, pad_edge=False)
        for name, dtype in shown.schema.items():
            table.add_column(escape(name), justify="right" if dtype.is_numeric() else "left", overflow="fold")
        for row in cells:
            table.add_row(*map(escape, row))
        console.print(table)
    if more:
        console.print(
            f"[dim]the first {limit} rows, and there are more: --limit N shows N, 0 all; --output FILE.csv "
            "writes all[/]"
        )
    else:
        console.print(f"[dim]{shown.height} row{'' if shown.height == 1 else 's'}[/]")
    return shown.height


def _needed(names: Sequence[str], cells: Sequence[Sequence[str]]) -> int:
    """Return the width below which columns beside each other cannot be read."""
    widest = [max(len(text) for text in column) for column in zip(names, *cells, strict=True)]
    return sum(min(width, COLUMN_CHARACTERS) + 3 for width in widest)


def _print_blocks(names: Sequence[str], cells: Sequence[Sequence[str]], console: Console) -> None:
    if not cells:
        console.print(escape(", ".join(names)))
    width = max(len(name) for name in names)
    empty = [name for place, name in enumerate(names) if cells and not any(row[place] for row in cells)]
    for number, row in enumerate(cells, 1):
        console.rule(f"[dim]row {number}[/]", align="left", style="dim", characters="─")
        block = Table.grid(padding=(0, 2))
        block.add_column(width=width, style="dim")
        block.add_column(overflow="fold")
        for name, text in zip(names, row, strict=True):
            if name not in empty:
                block.add_row(escape(name), escape(text))
        console.print(block)
    if empty:
        console.print(f"[dim]empty in every row: {escape(', '.join(empty))}[/]", soft_wrap=True)


def write_table(frames: Iterable[pl.DataFrame], file: IO[bytes], limit: int) -> int:
    """Write the table of `print_table` as plain text into a file."""
    import io

    text = io.StringIO()
    rows = print_table(frames, make_console(file=text, width=200), limit)
    file.write(text.getvalue().encode())
    return rows


def flat(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame with nested columns made JSON text, and intervals text: CSV has neither."""
    frame = whole_numbers(frame)
    changed = [
        pl.Series(name, [_text(value) for value in frame[name].to_list()], dtype=pl.String)
        for name, dtype in frame.schema.items()
        if dtype.is_nested() or dtype == pl.Duration
    ]
    return frame.with_columns(changed)


def whole_numbers(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame with DuckDB's integers of 128 bits as such, at whatever depth.

    They come as decimals of 38 digits, of which polars makes Python's numbers without the digits beyond.
    """
    kinds = {name: _whole(dtype) for name, dtype in frame.schema.items()}
    return frame.with_columns(
        pl.col(name).cast(kind) for name, kind in kinds.items() if kind != frame.schema[name]
    )


def _whole(dtype: pl.DataType) -> pl.DataType:
    if isinstance(dtype, pl.Decimal):
        return pl.Int128() if dtype.scale == 0 else dtype
    if isinstance(dtype, pl.List):
        return pl.List(_whole(_made(dtype.inner)))
    if isinstance(dtype, pl.Array):
        return pl.Array(_whole(_made(dtype.inner)), dtype.size)
    if isinstance(dtype, pl.Struct):
        return pl.Struct([pl.Field(field.name, _whole(_made(field.dtype))) for field in dtype.fields])
    return dtype


def _made(dtype: pl.DataType | pl.datatypes.DataTypeClass) -> pl.DataType:
    return dtype() if isinstance(dtype, type) else dtype


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1 else f"{value:.6g}"
    text = "" if value is None else str(value)
    return text if len(text) <= CELL_CHARACTERS else text[:CELL_CHARACTERS] + "…"


def _text(value: object) -> str | None:
    if value is None:
        return None
    return _json(value) if isinstance(value, list | dict) else str(value)


def _json(value: object) -> str:
    try:
        return json.dumps(value, default=str, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_spelt(value), default=str, ensure_ascii=False)


def _spelt(value: object) -> object:
    """Return a value in which numbers that JSON does not have are text."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _spelt(inner) for name, inner in value.items()}
    return [_spelt(inner) for inner in value] if isinstance(value, list | tuple) else value
