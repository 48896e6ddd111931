"""What SQL sees of a home: one view a table, then the macros and views of `sql/views/`, as statements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import polars as pl

from trace_assets.errors import InputError
from trace_assets.records import TABLES, Record
from trace_assets.records.table import polars_schema
from trace_assets.store.ready_query import sql_folder
from trace_assets.store.tables import way_back

_TYPES: dict[type[pl.DataType], str] = {
    pl.String: "VARCHAR",
    pl.Int64: "BIGINT",
    pl.Float64: "DOUBLE",
    pl.Boolean: "BOOLEAN",
    pl.Datetime: "TIMESTAMPTZ",
}


def sql_type(dtype: pl.DataType) -> str:
    """Return DuckDB's name of a column type that records use.

    >>> sql_type(pl.List(pl.Struct({"id": pl.String(), "n": pl.Int64()})))
    'STRUCT("id" VARCHAR, "n" BIGINT)[]'
    """
    if isinstance(dtype, pl.List):
        return f"{sql_type(_made(dtype.inner))}[]"
    if isinstance(dtype, pl.Struct):
        fields = ", ".join(f'"{field.name}" {sql_type(_made(field.dtype))}' for field in dtype.fields)
        return f"STRUCT({fields})"
    return _TYPES[type(dtype)]


def _made(dtype: pl.DataType | pl.datatypes.DataTypeClass) -> pl.DataType:
    return dtype() if isinstance(dtype, type) else dtype


def quoted(text: object) -> str:
    """Return a SQL string literal.

    >>> quoted("it's")
    "'it''s'"
    """
    return "'" + str(text).replace("'", "''") + "'"


def table_select(connection: duckdb.DuckDBPyConnection, tables: Path, record: type[Record]) -> str:
    """Return the SELECT that gives a table with exactly its record's columns, in the record's order.

    A column that the files do not have (they were written by an earlier version) is there and NULL; a table
    that was not written yet has no rows.

    Args:
        connection: Reads the files' columns.
        tables: The home's folder of tables.
        record: The table's record type.

    Raises:
        InputError: A file is not Parquet.
    """
    columns = {name: sql_type(dtype) for name, dtype in polars_schema(record).items()}
    folder = tables / record.table
    if not any(folder.glob("*.parquet")):
        return no_rows(record)
    source = f"read_parquet({quoted(folder)} || '/*.parquet', union_by_name = true)"
    try:
        present = {row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
    except duckdb.Error as error:
        raise InputError(
            f"table '{record.table}' cannot be read ({str(error).splitlines()[0]}); {way_back(record)}."
        ) from error
    parts = [
        f'"{name}"' if name in present else f'NULL::{kind} AS "{name}"' for name, kind in columns.items()
    ]
    return f"SELECT {', '.join(parts)} FROM {source}"


def no_rows(record: type[Record]) -> str:
    """Return the SELECT that gives a table without rows."""
    kinds = {name: sql_type(dtype) for name, dtype in polars_schema(record).items()}
    nulls = ", ".join(f'NULL::{kind} AS "{name}"' for name, kind in kinds.items())
    return f"SELECT {nulls} WHERE false"


def scripts() -> list[str]:
    """Return the SQL that makes the views and macros of `sql/views/`, in the order in which it is run."""
    return [file.read_text(encoding="utf-8") for file in sorted((sql_folder() / "views").glob("*.sql"))]


def statements(
    connection: duckdb.DuckDBPyConnection,
    tables: Path,
    *,
    copy: bool = False,
    only: Sequence[type[Record]] = (),
    broken: dict[str, str] | None = None,
) -> Iterator[tuple[str, str]]:
    """Yield (name, statement) for everything that SQL sees, in an order in which each can be run.

    Args:
        connection: Where they will be run; it is asked for the files' columns.
        tables: The home's folder of tables.
        copy: Make tables that hold the rows instead of views of the files.
        only: These tables alone, without the views of `sql/views/`; none stands for everything.
        broken: Takes the sentence about each table that cannot be read, which then has no rows; None raises
            it.
    """
    what = "TABLE" if copy else "VIEW"
    for record in only or TABLES:
        try:
            select = table_select(connection, tables, record)
        except InputError as error:
            if broken is None:
                raise
            broken[record.table], select = str(error), no_rows(record)
        yield record.table, f'CREATE {what} "{record.table}" AS {select}'
    for number, script in enumerate([] if only else scripts()):
        yield f"sql/views {number}", script
