"""SQL over everything: an in-memory DuckDB with one view a table, and the views and queries of `sql/`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import duckdb
import polars as pl

from trace_assets.errors import InputError
from trace_assets.records import TABLES, Record
from trace_assets.records.table import polars_schema
from trace_assets.store.home import Home


def sql_folder() -> Path:
    """Return the folder of the project's SQL files, in a checkout and in an installation alike."""
    override = os.environ.get("TRACE_SQL")
    return Path(override) if override else Path(__file__).resolve().parent.parent.parent / "sql"


class Warehouse:
    """Read-only SQL over the tables of a home.

    Opening takes no lock on any file: there may be any number of warehouses, also while tables are written.
    A table that was not written yet is there with its columns and no rows.
    """

    def __init__(self, home: Home) -> None:
        self.home = home
        self.connection = duckdb.connect(":memory:")
        self.connection.execute("SET TimeZone = 'UTC'")
        for record in TABLES:
            self._view(record)
        for file in sorted((sql_folder() / "views").glob("*.sql")):
            self.connection.execute(file.read_text(encoding="utf-8"))
        self.connection.execute(f"SET allowed_directories = ['{_quoted(home.tables)}']")
        self.connection.execute("SET enable_external_access = false")
        self.connection.execute("SET lock_configuration = true")

    def _view(self, record: type[Record]) -> None:
        folder = self.home.tables / record.table
        if any(folder.glob("*.parquet")):
            self.connection.execute(
                f'CREATE VIEW "{record.table}" AS SELECT * FROM '
                f"read_parquet('{_quoted(folder)}/*.parquet', union_by_name = true)"
            )
        else:
            empty = pl.DataFrame(schema=polars_schema(record)).to_arrow()  # noqa: F841 - read by name
            self.connection.execute(f'CREATE TABLE "{record.table}" AS SELECT * FROM empty')

    def __enter__(self) -> Warehouse:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def tables(self) -> list[str]:
        """Return the names of all tables and views."""
        rows = self.connection.execute(
            "SELECT table_name FROM information_schema.tables ORDER BY table_name"
        ).fetchall()
        return [str(name) for (name,) in rows]

    def query(self, sql: str, parameters: Sequence[Any] | dict[str, Any] | None = None) -> pl.DataFrame:
        """Run one query.

        Args:
            sql: A SELECT statement (or any other that reads).
            parameters: Values for `?` or `$name`.

        Returns:
            Its rows as a polars frame.

        Raises:
            InputError: DuckDB refused the query; the message says why and what there is to query.
        """
        try:
            statements = duckdb.extract_statements(sql)
            if len(statements) != 1:
                raise InputError(f"the query holds {len(statements)} statements; give exactly one.")
            if statements[0].type.name != "SELECT":
                raise InputError(
                    f"the warehouse is read-only and this is a {statements[0].type.name} statement; "
                    "use SELECT."
                )
            frame: pl.DataFrame = self.connection.sql(sql, params=parameters).pl()
            return frame
        except duckdb.Error as error:
            text = str(error).strip()
            raise InputError(
                f"the query failed: {text}\nTables and views: {', '.join(self.tables())}."
            ) from error


def ready_queries() -> dict[str, Path]:
    """Return the ready queries of `sql/queries/` by name."""
    return {file.stem: file for file in sorted((sql_folder() / "queries").glob("*.sql"))}


def describe(query: Path) -> str:
    """Return a ready query's own first comment line."""
    for line in query.read_text(encoding="utf-8").splitlines():
        if line.startswith("--"):
            return line.lstrip("- ").strip()
    return ""


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
