"""SQL over everything: an in-memory DuckDB with one view a table, and the views and queries of `sql/`."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any

import duckdb
import polars as pl

from trace_assets.errors import InputError
from trace_assets.records import TABLES
from trace_assets.store.files import Home
from trace_assets.store.tables import Store
from trace_assets.store.views import (
    _as_it_reads,
    asks_what_there_is,
    no_rows,
    quoted,
    ready_queries,
    scripts,
    scripts_of,
    table_select,
    touched,
)
from trace_assets.system.processes import memory_bytes

READS = frozenset({"SELECT", "CALL"})
"""Statement types that only read. `WITH ... INSERT` counts as SELECT, but no table is there to take it."""
BATCH_ROWS = 65_536
_EXPLAIN = re.compile(r"^\s*EXPLAIN\s+(ANALYZE\b\s*)?(\([^)]*\)\s*)?", re.IGNORECASE)


class Warehouse:
    """Read-only SQL over the tables of a home.

    Opening takes no lock on any file: there may be any number of warehouses, also while tables are written.
    Views of the tables are made when a query first names them: all of them take longer than most queries.
    A table that was not written yet is there with its columns and no rows; one that was written and lost is
    an error. Nothing outside the tables' folder can be read, and nothing can be written.

    >>> import trace_assets
    >>> with trace_assets.warehouse() as warehouse:
    ...     warehouse.query("SELECT count(*) AS n FROM trajectories WHERE success")["n"].to_list()
    [0]
    """

    def __init__(self, home: Home) -> None:
        """Open the tables.

        Args:
            home: Whose tables.
        """
        self.home = home
        self.connection = duckdb.connect(":memory:")
        self.connection.execute("SET TimeZone = 'UTC'")
        self.connection.execute("SET enable_progress_bar = false")  # it is drawn on standard output
        self._spill = tempfile.TemporaryDirectory(prefix="trace-sql-")  # nobody else's, and empty
        self.connection.execute(f"SET temp_directory = {quoted(self._spill.name)}")
        self.connection.execute(f"SET memory_limit = '{memory_bytes() // 2**21} MiB'")  # half of it
        self._store, self._scripts = Store.of(home), scripts()
        self._broken: dict[str, str] = {}
        self._to_make = {record.table: record for record in TABLES}
        """Tables without a view as yet."""
        self._to_run = list(self._scripts)
        """Scripts that were not run as yet."""
        readable = f"{quoted(home.tables)}, {quoted(_as_it_reads(home.tables))}"  # DuckDB compares letters
        self.connection.execute(f"SET allowed_directories = [{readable}]")
        self.connection.execute("SET python_enable_replacements = false")
        self.connection.execute("SET enable_external_access = false")
        self.connection.execute("SET lock_configuration = true")

    def __enter__(self) -> Warehouse:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def call_off(self) -> None:
        """Have the query that runs end in a `KeyboardInterrupt`; called from another thread."""
        self.connection.interrupt()

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()
        self.tidy()

    def tidy(self) -> None:
        """Remove what queries have laid on disk for want of memory."""
        self._spill.cleanup()

    def lost(self, tables: Collection[str] | None = None) -> dict[str, str]:
        """Return the tables that are not what was written, each with what is wrong and how it comes back.

        Every file is compared to its end, once a process; of files of more than a gigabyte size and ends.

        Args:
            tables: Those to look at; None looks at all.
        """
        self._make_views(self._to_make if tables is None else tables)
        found = dict(self._broken)
        for record in TABLES:
            wanted = tables is None or record.table in tables
            if wanted and record.table not in found and (said := self._store.problem(record)):
                found[record.table] = said
        return {name: said for name, said in found.items() if tables is None or name in tables}

    def unlisted(self, sql: str) -> list[Path]:
        """Return the files that a query reads and that this program did not put there, as far as is known."""
        tables = touched(sql, [record.table for record in TABLES], self._scripts)
        return [file for record in TABLES if record.table in tables for file in self._store.unlisted(record)]

    def tables(self) -> list[str]:
        """Return the names of all tables and views."""
        self._make_all()
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
        import pyarrow as pa  # takes longer to import than most queries take

        with self._explained():
            reader = self._relation(sql, parameters).to_arrow_reader(BATCH_ROWS)
            # Made of no batches: `Schema.empty_table` converts empty lists, for which pyarrow imports pandas.
            yield pl.DataFrame(pl.from_arrow(pa.Table.from_batches([], schema=reader.schema)))
            for batch in reader:
                yield pl.DataFrame(pl.from_arrow(batch))

    def head(
        self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None, *, rows: int
    ) -> Iterator[pl.DataFrame]:
        """Run one query for its first rows and yield them as one frame, as `stream` would begin.

        Args:
            sql: As for `query`.
            parameters: As for `query`.
            rows: How many at most.
        """
        with self._explained():
            found = self._relation(sql, parameters).limit(rows).materialize()
            # polars keeps the types of what it is handed, with all that these lead to, beyond DuckDB's end.
            yield pl.DataFrame(SimpleNamespace(__arrow_c_stream__=found.__arrow_c_stream__))

    def _relation(
        self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] | None
    ) -> duckdb.DuckDBPyRelation:
        self._must_read(sql, parameters)
        for said in self.lost(touched(sql, [record.table for record in TABLES], self._scripts)).values():
            raise InputError(said)
        values = dict(parameters) if isinstance(parameters, Mapping) else parameters
        if asks_what_there_is(sql):
            self._make_all()
        self._run_scripts(scripts_of(sql, self._scripts))
        try:
            return told_apart(self.connection.sql(sql, params=values or None))
        except duckdb.CatalogException:
            if not (self._to_make or self._to_run):
                raise
            self._make_all()  # it may name them in some other way; and DuckDB suggests names that are there
            return told_apart(self.connection.sql(sql, params=values or None))

    def _make_all(self) -> None:
        self._make_views(list(self._to_make))
        self._run_scripts(self._scripts)

    def _make_views(self, tables: Collection[str]) -> None:
        for name, record in [one for one in self._to_make.items() if one[0] in tables]:
            try:
                select = table_select(self.connection, self.home.tables, record)
            except InputError as error:
                self._broken[name], select = str(error), no_rows(record)
            self.connection.execute(f'CREATE VIEW "{name}" AS {select}')
            del self._to_make[name]

    def _run_scripts(self, wanted: Collection[str]) -> None:
        for script in [one for one in self._to_run if one in wanted]:
            self.connection.execute(script)
            self._to_run.remove(script)

    def _must_read(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] | None) -> None:
        if "\0" in sql:  # DuckDB would run what stands before it
            raise InputError("the query holds a NUL character; remove it.")
        values = parameters.values() if isinstance(parameters, Mapping) else parameters or ()
        try:
            for text in (sql, *values):
                str(text).encode()
        except UnicodeEncodeError:
            raise InputError(
                "the query, or a value for it, is not UTF-8 text; write it in UTF-8, or in a file that is."
            ) from None
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
        except (duckdb.OutOfMemoryException, MemoryError) as error:
            raise InputError(
                "the query takes more memory than this machine has for it; ask for fewer rows at a time, or "
                "shorten texts with left(...)."
            ) from error
        except duckdb.Error as error:
            raise InputError(f"the query failed: {str(error).strip()}") from error
        except _too_large() as error:  # of Arrow: rows with more than 2 GiB of text
            raise _shortened(error) from error
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise _shortened(error) if "total string size" in str(error) else unfit(error) from error


def _too_large() -> tuple[type[Exception], ...]:
    """Return what says that rows are too large, of Arrow where it was imported."""
    arrow = sys.modules.get("pyarrow")
    return (OSError,) if arrow is None else (OSError, arrow.ArrowException)


def _shortened(error: BaseException) -> InputError:
    return InputError(
        f"a value or some rows of the result are too large to be written ({str(error).splitlines()[0]}); "
        "shorten texts with left(...)."
    )


def unfit(error: BaseException) -> InputError:
    """Return the sentence about values that polars cannot hold or write, such as an infinite date."""
    return InputError(
        f"a value of the result cannot be written ({str(error).splitlines()[0]}); cast its column to VARCHAR."
    )


# Results as Arrow and polars can hold them: they know neither all types of DuckDB nor two columns of a name.


_AS_TEXT = frozenset({"interval", "union", "bit", "uhugeint", "bignum", "time with time zone", "time_tz"})
"""Types that have no place in polars, or whose values become others there: they are text in results."""


def told_apart(relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """Return a result whose columns have names of their own and types that polars has.

    The second `id` is `id_1`, as DuckDB calls it in a subquery.

    >>> told_apart(duckdb.sql("SELECT 1 AS a, 2 AS a, INTERVAL 1 DAY AS d")).fetchall()
    [(1, 2, '1 day')]
    """
    names = list[str]()
    for name in relation.columns:
        number, unique = 0, name
        while unique in names or (number and unique in relation.columns):
            number += 1
            unique = f"{name}_{number}"
        names.append(unique)
    kinds = [_is_foreign(kind) for kind in relation.types]
    if names == list(relation.columns) and not any(kinds):
        return relation
    parts = (
        f"CAST(#{place} AS VARCHAR) AS {identifier(name)}" if foreign else f"#{place} AS {identifier(name)}"
        for place, (name, foreign) in enumerate(zip(names, kinds, strict=True), 1)
    )
    return relation.project(", ".join(parts))


def _is_foreign(kind: Any) -> bool:
    if kind.id in _AS_TEXT:
        return True
    return kind.id in ("list", "array", "struct", "map") and any(
        _is_foreign(inner) for _, inner in kind.children if not isinstance(inner, int)
    )


def identifier(name: str) -> str:
    """Return a name as SQL writes names that are no words."""
    return '"' + name.replace('"', '""') + '"'
