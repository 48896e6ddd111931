"""A DuckDB file of views for BI tools and notebooks: every table, view and ready query under its name."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from trace_assets.errors import InputError
from trace_assets.records import TABLES
from trace_assets.store.files import Home, replacing_file
from trace_assets.store.views import quoted, ready_queries, statements
from trace_assets.store.warehouse import Warehouse

STORAGE_VERSION = "v1.5.0"
"""The oldest DuckDB that shall open the file: the oldest that this program runs with."""
MARK = "about_this_warehouse"
"""A view that only such files have: what may be replaced is told by it."""


@dataclass(frozen=True)
class WarehouseFile:
    """What a file holds.

    Attributes:
        file: Where it is.
        home: Whose tables it shows.
        copied: Whether it holds the rows themselves.
        tables: Names of the tables.
        views: Names of the views of `sql/views/`.
        queries: Names of the ready queries' views, each `q_` and the query's name.
    """

    file: Path
    home: Path
    copied: bool
    tables: tuple[str, ...]
    views: tuple[str, ...]
    queries: tuple[str, ...]


def build_warehouse(home: Home, file: Path, *, copy: bool = False) -> WarehouseFile:
    """Write a DuckDB file: a view of each table, the views of `sql/views/`, and ready queries as `q_NAME`.

    The views read the home's Parquet files by absolute path, so they show what is there when they are
    queried, new batches included. A table that does not exist yet is an empty one, until the file is built
    again. The file takes the place of an older one in one step.

    Args:
        home: Whose tables.
        file: The file to make or replace.
        copy: Put the rows themselves into the file, so that it can be given away; they do not change then.

    Raises:
        InputError: The place is taken by something else, or cannot be written; or a table was lost.
    """
    target = file.expanduser().absolute()
    _may_replace(target)
    with Warehouse(home) as warehouse:
        for said in warehouse.lost().values():
            raise InputError(said)
    try:
        with replacing_file(target) as partial:
            connection = duckdb.connect(":memory:")
            try:
                connection.execute(
                    f"ATTACH {quoted(partial)} AS warehouse (STORAGE_VERSION '{STORAGE_VERSION}')"
                )
                connection.execute("USE warehouse")
                return _fill(connection, home, target, copy)
            finally:
                connection.close()
                partial.with_name(partial.name + ".wal").unlink(missing_ok=True)
    except (OSError, duckdb.IOException) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise InputError(
            f"{file} cannot be written ({reason}); give a file in a folder that exists and that you may "
            "write to."
        ) from error


def _fill(connection: duckdb.DuckDBPyConnection, home: Home, target: Path, copy: bool) -> WarehouseFile:
    for _, statement in statements(connection, home.tables, copy=copy):
        connection.execute(statement)
    tables = tuple(record.table for record in TABLES)
    found = connection.execute(
        "SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1"
    ).fetchall()
    views = tuple(str(name) for (name,) in found if name not in tables)
    queries = []
    for name, query in ready_queries().items():
        connection.execute(f"CREATE VIEW q_{name} AS {query.with_defaults()}")
        connection.execute(f"COMMENT ON VIEW q_{name} IS {quoted(query.purpose)}")
        queries.append(f"q_{name}")
    note = (
        f"Rows copied from {home.path}."
        if copy
        else f"Views of the Parquet files in {home.tables}. When that folder moves, or a table is written "
        "for the first time, build this file again: trace warehouse build FILE"
    )
    connection.execute(
        f"CREATE VIEW {MARK} AS SELECT {quoted(home.path)} AS home, {quoted(note)} AS note, "
        f"TIMESTAMPTZ {quoted(datetime.now(UTC).isoformat(timespec='seconds'))} AS built_at, {copy} AS copied"
    )
    return WarehouseFile(target, home.path, copy, tables, views, tuple(queries))


def _may_replace(target: Path) -> None:
    """Let nothing be replaced but a warehouse of before.

    Raises:
        InputError: Something else is there.
    """
    if not target.exists():
        return
    try:
        with duckdb.connect(str(target), read_only=True) as old:
            names = {name for (name,) in old.execute("SELECT view_name FROM duckdb_views()").fetchall()}
    except (OSError, duckdb.Error):
        names = set()
    if MARK not in names:
        raise InputError(
            f"{target} exists and was not built by `trace warehouse build`: it stays as it is; choose "
            "another name."
        )
