"""What SQL sees of a home: a view a table, the views and macros of `sql/views/`, and which a query names.

Ready queries are files of `sql/queries/` that say first what they answer and what they take.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import polars as pl

from trace_assets.errors import InputError, did_you_mean
from trace_assets.records import TABLES, Record
from trace_assets.records.table import polars_schema
from trace_assets.shipped import shipped
from trace_assets.store.tables import way_back

_TYPES: dict[type[pl.DataType], str] = {
    pl.String: "VARCHAR",
    pl.Int64: "BIGINT",
    pl.Float64: "DOUBLE",
    pl.Boolean: "BOOLEAN",
    pl.Datetime: "TIMESTAMPTZ",
}
_PARAMETER = re.compile(r"^-- \$(\w+)(?: = (\S+))?: (.+)$")
_USE = re.compile(r"\$(\w+)")


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


def sql_folder() -> Path:
    """Return the folder of the project's SQL files."""
    override = os.environ.get("TRACE_SQL")
    return Path(override) if override else shipped("sql")


@dataclass(frozen=True)
class Parameter:
    """A value that a ready query takes.

    Attributes:
        name: Its name, written `$name` in the query.
        default: What stands for it when none is given; None is SQL's NULL.
        meaning: One phrase for the person who sets it.
    """

    name: str
    default: str | None
    meaning: str


@dataclass(frozen=True)
class ReadyQuery:
    """One file of `sql/queries/`.

    The first comment line is its purpose. A line `-- $name = default: meaning` declares a parameter, one
    without `= default` a parameter that is NULL unless it is given; the query casts what it is handed.

    Attributes:
        name: File name without `.sql`.
        purpose: What it answers, in one sentence.
        parameters: What it takes.
        sql: The query, without comment lines.
    """

    name: str
    purpose: str
    parameters: tuple[Parameter, ...]
    sql: str

    @classmethod
    def parse(cls, name: str, text: str) -> ReadyQuery:
        r"""Read a query file.

        Raises:
            InputError: It has no purpose, or uses a parameter that it does not declare, or the reverse.

        >>> query = ReadyQuery.parse("few", "-- Few tasks.\n-- $n = 3: how many\nFROM tasks LIMIT $n")
        >>> query.purpose, query.parameters[0].default, query.sql
        ('Few tasks.', '3', 'FROM tasks LIMIT $n')
        """
        lines = text.strip().splitlines()
        comments = [line for line in lines if line.startswith("--")]
        declared = [match for line in comments if (match := _PARAMETER.match(line))]
        parameters = tuple(Parameter(match[1], match[2], match[3]) for match in declared)
        sql = "\n".join(line for line in lines if not line.startswith("--"))
        purpose = comments[0].lstrip("- ").strip() if comments else ""
        if not purpose or _PARAMETER.match(comments[0]):
            raise InputError(f"query '{name}' does not say what it answers: begin it with a comment line.")
        used, known = set(_USE.findall(sql)), {parameter.name for parameter in parameters}
        if used != known:
            odd = ", ".join(f"${one}" for one in sorted(used ^ known))
            raise InputError(f"query '{name}' must declare exactly the parameters it uses; look at {odd}.")
        return cls(name, purpose, parameters, sql.strip().rstrip(";"))

    def bind(self, given: Mapping[str, str]) -> dict[str, str | None]:
        """Return a value for every parameter.

        Args:
            given: Parameter name to value, as the person wrote it.

        Raises:
            InputError: The query has no such parameter.
        """
        known = {parameter.name: parameter.default for parameter in self.parameters}
        for name in given:
            if name not in known:
                takes = ", ".join(known) or "none"
                raise InputError(
                    f"ready query '{self.name}' has no parameter '{name}'{did_you_mean(name, known)}"
                    f" Its parameters: {takes}."
                )
        return {name: given.get(name, default) for name, default in known.items()}

    def with_defaults(self) -> str:
        """Return the query with every default in its place, for a view."""
        values = {parameter.name: parameter.default for parameter in self.parameters}

        def literal(match: re.Match[str]) -> str:
            value = values[match[1]]
            return "NULL" if value is None else "'" + value.replace("'", "''") + "'"

        return _USE.sub(literal, self.sql)


def ready_queries() -> dict[str, ReadyQuery]:
    """Return the ready queries by name, sorted."""
    files = sorted((sql_folder() / "queries").glob("*.sql"))
    return {file.stem: ReadyQuery.parse(file.stem, file.read_text(encoding="utf-8")) for file in files}
