"""SQL over everything: an in-memory DuckDB with one view a table, and the views and queries of `sql/`."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any

import duckdb
import polars as pl

from trace_assets.errors import InputError
from trace_assets.records import TABLES, Record
from trace_assets.records.table import polars_schema
from trace_assets.store.files import Home
from trace_assets.store.saved_queries import ready_queries, sql_folder
from trace_assets.store.tables import Store, way_back
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


# What SQL sees of a home: one view a table, then the macros and views of `sql/views/`, as statements.


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
    source = (
        f"read_parquet({quoted(_as_it_reads(folder))} || '/*.parquet', "
        # Else a home below a folder `model=a` would have that model in every row.
        "union_by_name = true, hive_partitioning = false)"
    )
    try:
        present = {row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
    except duckdb.Error as error:
        said = str(error).splitlines()[0]
        back = (
            "have it readable for whoever runs this command"
            if "Permission denied" in said
            else way_back(record)
        )
        raise InputError(f"table '{record.table}' cannot be read ({said}); {back}.") from error
    parts = [
        f'"{name}"' if name in present else f'NULL::{kind} AS "{name}"' for name, kind in columns.items()
    ]
    return f"SELECT {', '.join(parts)} FROM {source}"


def _as_it_reads(path: Path) -> str:
    """Return a pattern of DuckDB's that a path alone fits, whatever characters are in it.

    >>> _as_it_reads(Path("runs [3]/home"))
    'runs [[]3]/home'
    """
    return re.sub(r"[*?[]", r"[\g<0>]", str(path))


def no_rows(record: type[Record]) -> str:
    """Return the SELECT that gives a table without rows."""
    kinds = {name: sql_type(dtype) for name, dtype in polars_schema(record).items()}
    nulls = ", ".join(f'NULL::{kind} AS "{name}"' for name, kind in kinds.items())
    return f"SELECT {nulls} WHERE false"


def scripts() -> list[str]:
    """Return the SQL that makes the views and macros of `sql/views/`, in the order in which it is run."""
    return [file.read_text(encoding="utf-8") for file in sorted((sql_folder() / "views").glob("*.sql"))]


def statements(
    connection: duckdb.DuckDBPyConnection, tables: Path, *, copy: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield (name, statement) for everything that SQL sees, in an order in which each can be run.

    Args:
        connection: Where they will be run; it is asked for the files' columns.
        tables: The home's folder of tables.
        copy: Make tables that hold the rows instead of views of the files.

    Raises:
        InputError: A table cannot be read.
    """
    what = "TABLE" if copy else "VIEW"
    for record in TABLES:
        select = table_select(connection, tables, record)
        yield record.table, f'CREATE {what} "{record.table}" AS {select}'
    for number, script in enumerate(scripts()):
        yield f"sql/views {number}", script


# Which tables a query may read: by the words in it, and in the views and macros that it names.


_WORD = re.compile(r"\w+")
_MADE = re.compile(r"\bCREATE\s+(?:OR\s+REPLACE\s+)?(?:VIEW|MACRO|FUNCTION|TABLE)\s+\"?(\w+)", re.IGNORECASE)
_ANYTHING = frozenset({"query", "query_table", "glob"})
"""Functions that read what a text says, which may be put together from parts."""
_CATALOG = frozenset({"information_schema", "show", "describe"})


def touched(sql: str, tables: Collection[str], scripts: Iterable[str]) -> set[str]:
    """Return the tables that a query may read; rather too many than too few.

    Args:
        sql: The query.
        tables: Names of all tables.
        scripts: SQL that makes views and macros.

    >>> views = ["CREATE VIEW failures AS SELECT * FROM trajectories WHERE NOT success"]
    >>> sorted(touched("SELECT count(*) FROM Failures", ["labels", "trajectories"], views))
    ['trajectories']
    >>> sorted(touched("FROM read_parquet('x/*.parquet')", ["labels", "trajectories"], views))
    ['labels', 'trajectories']
    """
    words = _all_words(sql, _definitions(scripts))
    if words & _ANYTHING or any("parquet" in word or word.startswith("read_") for word in words):
        return set(tables)
    return words & set(tables)


def scripts_of(sql: str, scripts: Collection[str]) -> set[str]:
    """Return those of the scripts that make a view or macro which a query, or another such script, names.

    >>> views = ["CREATE VIEW a AS FROM b", "CREATE VIEW b AS FROM t", "CREATE VIEW c AS FROM t"]
    >>> sorted(scripts_of("FROM a", views))
    ['CREATE VIEW a AS FROM b', 'CREATE VIEW b AS FROM t']
    """
    defined = _definitions(scripts)
    return {defined[word] for word in _all_words(sql, defined) & defined.keys()}


def asks_what_there_is(sql: str) -> bool:
    """Tell whether a query may ask for the tables and views themselves, not only for rows of those it names.

    >>> [asks_what_there_is(one) for one in ("SHOW TABLES", "FROM duckdb_views()", "SELECT 1 FROM labels")]
    [True, True, False]
    """
    words = _words(sql)
    return (
        not words & {"select", "from"}
        or not words.isdisjoint(_CATALOG)
        or any(word.startswith(("duckdb_", "pragma_", "sqlite_", "pg_")) for word in words)
    )


def _definitions(scripts: Iterable[str]) -> Mapping[str, str]:
    """Return the script that makes a view or macro by its name."""
    return {name.lower(): script for script in scripts for name in _MADE.findall(script)}


def _all_words(sql: str, defined: Mapping[str, str]) -> set[str]:
    """Return the words of a query, and of what makes the views and macros among them."""
    words, new = set[str](), _words(sql)
    while new - words:
        words |= new
        new = set().union(*(_words(defined[word]) for word in words & defined.keys()))
    return words


def _words(sql: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(sql)}
