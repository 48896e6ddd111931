"""SQL over everything: an in-memory DuckDB with one view a table, and the views and queries of `sql/`."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import duckdb
import polars as pl

from trace_assets.allotment import memory_bytes
from trace_assets.errors import InputError
from trace_assets.records import TABLES, Record
from trace_assets.store.catalog import quoted, scripts, statements
from trace_assets.store.home import Home
from trace_assets.store.ready_query import ready_queries
from trace_assets.store.tables import Store
from trace_assets.store.touched import touched

READS = frozenset({"SELECT", "CALL"})
"""Statement types that only read. `WITH ... INSERT` counts as SELECT, but no table is there to take it."""
BATCH_ROWS = 65_536
_EXPLAIN = re.compile(r"^\s*EXPLAIN\s+(ANALYZE\b\s*)?(\([^)]*\)\s*)?", re.IGNORECASE)


class Warehouse:
    """Read-only SQL over the tables of a home.

    Opening takes no lock on any file: there may be any number of warehouses, also while tables are written.
    A table that was not written yet is there with its columns and no rows; one that was written and lost is
    an error. Nothing outside the tables' folder
    can be read, and nothing can be written.

    >>> import trace_assets
    >>> with trace_assets.warehouse() as warehouse:
    ...     warehouse.query("SELECT count(*) AS n FROM trajectories WHERE success")["n"].to_list()
    [0]
    """

    def __init__(self, home: Home, only: Sequence[type[Record]] = ()) -> None:
        """Open the tables.

        Args:
            home: Whose tables.
            only: These tables alone and no further view, which opens faster; none stands for everything.
        """
        self.home = home
        self.connection = duckdb.connect(":memory:")
        self.connection.execute("SET TimeZone = 'UTC'")
        self.connection.execute("SET enable_progress_bar = false")  # it is drawn on standard output
        self._spill = tempfile.TemporaryDirectory(prefix="trace-sql-")  # nobody else's, and empty
        self.connection.execute(f"SET temp_directory = {quoted(self._spill.name)}")
        self.connection.execute(f"SET memory_limit = '{memory_bytes() // 2**21} MiB'")  # half of it
        self._store, self._scripts = Store.of(home), [] if only else scripts()
        self._broken: dict[str, str] = {}
        for _, statement in statements(self.connection, home.tables, only=only, broken=self._broken):
            self.connection.execute(statement)
        self.connection.execute(f"SET allowed_directories = [{quoted(home.tables)}]")
        self.connection.execute("SET python_enable_replacements = false")
        self.connection.execute("SET enable_external_access = false")
        self.connection.execute("SET lock_configuration = true")

    def __enter__(self) -> Warehouse:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()
        self._spill.cleanup()

    def lost(self, tables: Collection[str] | None = None) -> dict[str, str]:
        """Return the tables that are not what was written, each with what is wrong and how it comes back.

        Every file is compared to its end, once a process; of files of more than a gigabyte size and ends.

        Args:
            tables: Those to look at; None looks at all.
        """
        found = dict(self._broken)
        for record in TABLES:
            wanted = tables is None or record.table in tables
            if wanted and record.table not in found and (said := self._store.problem(record)):
                found[record.table] = said
        return {name: said for name, said in found.items() if tables is None or name in tables}

    def tables(self) -> list[str]:
        """Return the names of all tables and views."""
        rows = self.connection.execute(
            "SELECT table_name FROM information_schema.tables ORDER BY table_name"
        ).fetchall()
        return [str(name) for (name,) in rows]

    def row_counts(self) -> dict[str, int]:
        """Return the rows of every stored table, in pipeline order; views and lost ones are left out."""
        lost = self.lost()
        whole = [record.table for record in TABLES if record.table not in lost]
        parts = [f'SELECT count(*) FROM "{name}"' for name in whole]
        counts = self.connection.execute(" UNION ALL ".join(f"({part})" for part in parts)).fetchall()
        return {name: int(row[0]) for name, row in zip(whole, counts, strict=True)}

    def query(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None) -> pl.DataFrame:
        """Run one query.

        Args:
            sql: One statement that reads: SELECT, FROM, VALUES, DESCRIBE, SUMMARIZE, SHOW, PIVOT, EXPLAIN.
            parameters: Values for `?` or `$name`.

        Returns:
            Its rows as a polars frame.

        Raises:
            InputError: DuckDB refused the query; the message says why and what there is to query. Or a table
                that it names was lost or altered; the message says how it comes back.
        """
        with self._explained():
            frame: pl.DataFrame = self._relation(sql, parameters).pl()
            return frame

    def ready(self, name: str, **parameters: str) -> pl.DataFrame:
        """Run a ready query of `sql/queries/`.

        Args:
            name: Its name.
            parameters: Values of its parameters; those not given have their defaults.

        Raises:
            InputError: There is no such query or parameter, or a value does not fit.
        """
        known = ready_queries()
        if name not in known:
            raise InputError(f"there is no ready query '{name}'; there are {', '.join(known)}.")
        return self.query(known[name].sql, known[name].bind(parameters))

    def stream(
        self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None
    ) -> Iterator[pl.DataFrame]:
        """Run one query and yield its rows in frames of bounded height; the first may be empty.

        The same as `query` in all else, for results that need not fit into memory.
        """
        with self._explained():
            reader = self._relation(sql, parameters).to_arrow_reader(BATCH_ROWS)
            yield pl.DataFrame(pl.from_arrow(reader.schema.empty_table()))
            for batch in reader:
                yield pl.DataFrame(pl.from_arrow(batch))

    def _relation(
        self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] | None
    ) -> duckdb.DuckDBPyRelation:
        self._must_read(sql, parameters)
        for said in self.lost(touched(sql, [record.table for record in TABLES], self._scripts)).values():
            raise InputError(said)
        values = dict(parameters) if isinstance(parameters, Mapping) else parameters
        return self.connection.sql(sql, params=values or None)

    def _must_read(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] | None) -> None:
        found = duckdb.extract_statements(sql)
        if len(found) != 1:
            raise InputError(f"the query holds {len(found)} statements; give exactly one.")
        kind = found[0].type.name
        if kind == "EXPLAIN":
            explained = _EXPLAIN.sub("", sql, count=1)
            if explained == sql:
                raise InputError(
                    "write EXPLAIN first, before any comment, so that it is seen what it explains."
                )
            self._must_read(explained, parameters)
            return
        if kind not in READS and not (kind == "MULTI" and re.match(r"\s*(UN)?PIVOT\b", sql, re.IGNORECASE)):
            raise InputError(
                f"the warehouse is read-only and this is a {kind} statement; use SELECT (or FROM, DESCRIBE, "
                "SUMMARIZE, EXPLAIN)."
            )
        given = set(parameters) if isinstance(parameters, Mapping) else set()
        wanted = {name for name in found[0].named_parameters if not name.isdigit()}
        for name in sorted(wanted - given):
            raise InputError(f"the query needs a value for ${name}: give `--param {name}=VALUE`.")
        for name in sorted(given - wanted):
            raise InputError(
                f"the query has no parameter ${name}; it has {', '.join(sorted(wanted)) or 'none'}."
            )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except duckdb.InterruptException as error:
            raise KeyboardInterrupt from error
        except duckdb.CatalogException as error:
            raise InputError(
                f"the query failed: {str(error).strip()}\nTables and views: {', '.join(self.tables())}."
            ) from error
        except duckdb.Error as error:
            raise InputError(f"the query failed: {str(error).strip()}") from error
