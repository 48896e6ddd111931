"""`trace sql`: any question to the tables, in SQL, read-only."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, get_args

import polars as pl
import typer
from rich.markup import escape

from trace_assets.cli import sql_output
from trace_assets.cli.options import MANY, Config, Json, Set, complete_query, leave_home_alone, open_study
from trace_assets.cli.options import console as make_console
from trace_assets.cli.sql_output import Format
from trace_assets.errors import InputError, did_you_mean
from trace_assets.records.trajectory import Fault
from trace_assets.store.names import chosen_name
from trace_assets.store.views import ReadyQuery, ready_queries
from trace_assets.store.warehouse import Warehouse, unfit
from trace_assets.study import Study
from trace_assets.system.processes import memory_bytes

TABLE_ROWS = 200
SECONDS = 300
"""How long a query may run, unless `--seconds` says otherwise."""


def sql(
    query: Annotated[
        str | None,
        typer.Argument(
            help="A query, a .sql file, or the name of a ready query or table; - reads standard input.",
            autocompletion=complete_query,
        ),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param", "-p", help="A parameter of the query: NAME=VALUE. May be given several times."
        ),
    ] = None,
    format: Annotated[
        Format | None, typer.Option(help="How to write the rows; by default as the output file's name says.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the rows to this file instead of printing them."),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=0, max=MANY, help="Rows that a printed table shows at most; 0 shows all.")
    ] = TABLE_ROWS,
    seconds: Annotated[
        float, typer.Option(min=0, max=MANY, help="How long the query may run; 0: as long as it takes.")
    ] = SECONDS,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Query every table in SQL. Without a query: list the tables and the ready queries."""
    if as_json and format not in (None, Format.json):
        raise InputError(f"--json and --format {format.value} contradict each other: say one of them.")
    given = _parameters(param or [])
    if query is not None and query.endswith(".sql"):
        query = str(Path(query).absolute())  # before the study's folder becomes the working one
    study = open_study(config, overrides, writable=False)
    leave_home_alone(study, output)
    chosen = Format.json if as_json else sql_output.format_of(format, output)
    with Warehouse(study.home) as warehouse:
        if query is None:
            if given:
                raise InputError("--param belongs to a query; give a query or the name of a ready one.")
            _list(warehouse, chosen)
            if warehouse.lost():
                raise typer.Exit(1)
            _tell_nothing_is_here(study)
            return
        text, values = _resolve(query, given, warehouse)
        _tell_unlisted(warehouse.unlisted(text))
        if chosen is Format.table and output is None and limit:
            frames = warehouse.head(text, values, rows=limit + 1)
        else:
            frames = warehouse.stream(text, values)
        within = bounded_time(seconds, warehouse.call_off, warehouse.tidy)
        try:
            with bounded_memory(), within, _ended_by_interrupt():
                written = _write(frames, chosen, output, limit)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise unfit(error) from error
        except BrokenPipeError:  # the reader, such as `head`, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return
    _tell_nothing_is_here(study)
    if output is not None:
        make_console(stderr=True).print(f"{written} rows written to {escape(str(output))}", soft_wrap=True)


def _tell_nothing_is_here(study: Study) -> None:
    """Say so where no table has a row: a wrong folder or `TRACE_HOME` looks like a study without findings."""
    if not any(study.home.tables.rglob("*.parquet")):
        make_console(stderr=True).print(
            f"[yellow]note[/] {escape(str(study.home.path))} holds no row of any table yet. If that is not "
            "the study you mean, go to its folder or set TRACE_HOME; `trace diagnose FILE...` begins one.",
            soft_wrap=True,
        )


def _tell_unlisted(files: Sequence[Path]) -> None:
    if not files:
        return
    more = f" and {len(files) - 1:,} more" if len(files) > 1 else ""
    make_console(stderr=True).print(
        f"[yellow]note[/] {escape(str(files[0]))}{more}: put there by hand, or just before a power cut. The "
        "rows count; move away what is not this study's, for the next `trace sync` enters it.",
        soft_wrap=True,
    )


@contextmanager
def _ended_by_interrupt() -> Iterator[None]:
    """Let Ctrl-C end the process: while DuckDB computes, Python cannot look at signals. Nothing is lost."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _write(frames: Iterable[pl.DataFrame], chosen: Format, output: Path | None, limit: int) -> int:
    if chosen is Format.table and output is None:
        return sql_output.print_table(frames, make_console(), limit)
    with sql_output.destination(output) as file:
        if chosen is Format.csv:
            return sql_output.write_csv(frames, file)
        if chosen is Format.json:
            return sql_output.write_json(frames, file)
        if chosen is Format.parquet:
            return sql_output.write_parquet(frames, file)
        return sql_output.write_table(frames, file, 0)


def _parameters(items: list[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        name = name.strip().lstrip("$")
        if not equals or not name.isidentifier():
            raise InputError(f"--param '{item}' is not NAME=VALUE, such as --param capability=my-capability.")
        if name in given:
            raise InputError(f"--param {name} is given twice.")
        given[name] = value
    return given


def _resolve(
    query: str, given: Mapping[str, str], warehouse: Warehouse
) -> tuple[str, Mapping[str, str | None]]:
    """Return the SQL and the values for its parameters that the argument stands for."""
    known = ready_queries()
    if query in known:
        return known[query].sql, known[query].bind(_meant(given, warehouse))
    if query == "-":
        try:
            return sys.stdin.read(), given
        except UnicodeDecodeError as error:
            raise InputError("standard input is not UTF-8 text; save the query as UTF-8.") from error
    if query.endswith(".sql"):
        try:
            return Path(query).read_text(encoding="utf-8"), given
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise InputError(
                f"the query file {query} cannot be read ({reason}); ready queries are {', '.join(known)}."
            ) from error
    if re.fullmatch(r"[\w.-]+", query):
        tables = warehouse.tables()
        if query in tables:
            return f'FROM "{query}"', given
        there = dict.fromkeys([*known, *tables])
        raise InputError(
            f"'{query}' is neither a query nor the name of a ready query or table"
            + did_you_mean(query, there, "; `trace sql` lists what there is.", most=3)
        )
    return query, given


NAMED = {
    "capability": ("SELECT capability_id, name FROM capabilities", 2),
    "policy": ("SELECT DISTINCT policy FROM trajectories", 1),
    "stage": ("SELECT DISTINCT stage FROM ledger", 1),
    "target": ("SELECT DISTINCT target FROM trajectories", 1),
    "tool": ("SELECT DISTINCT tool_name FROM tool_calls", 1),
}
"""Parameters of ready queries that name something stored: where the names are, and in how many columns."""
VALUES: dict[str, tuple[str, ...]] = {
    "label": ("LACKING", "PRESENT"),
    "party": get_args(Fault),
    "status": ("fail", "skip", "pass", "not_pass", "any"),
    "through": ("contrast", "contract"),
    "unit": ("wall", "cpu", "usd"),
}
"""Parameters of ready queries that take one of a few words: another finds no row, and says nothing."""


def _meant(given: Mapping[str, str], warehouse: Warehouse) -> dict[str, str]:
    """Return values in which a unique beginning of a name is the name.

    Raises:
        InputError: Nothing stored is called so, or several begin so.
    """
    meant = dict(given)
    for parameter, (where, width) in NAMED.items():
        if parameter in meant:
            rows = [row for frame in warehouse.stream(where) for row in frame.iter_rows()]
            names = {str(row[column]): str(row[0]) for column in range(width) for row in rows}
            meant[parameter] = chosen_name(parameter, meant[parameter], names)
    for parameter, values in VALUES.items():
        if parameter in meant:
            word = meant[parameter]
            alike = {value.casefold(): value for value in values}
            meant[parameter] = chosen_name(parameter, alike.get(word.casefold(), word), values)
    if "trajectory" in meant:  # one that is gone may be asked for too: what came of it stays
        begin = {"begin": meant["trajectory"]}
        found = warehouse.head(
            "SELECT trajectory_id FROM trajectories WHERE starts_with(trajectory_id, $begin)", begin, rows=2
        )
        ids = [str(row[0]) for frame in found for row in frame.iter_rows()]
        meant["trajectory"] = ids[0] if len(ids) == 1 else meant["trajectory"]
    return meant


def _list(warehouse: Warehouse, chosen: Format) -> None:
    counts, lost, known = warehouse.row_counts(), warehouse.lost(), ready_queries()
    views = [name for name in warehouse.tables() if name not in counts and name not in lost]
    if chosen is Format.json:
        document = {
            "home": str(warehouse.home.path),
            "tables": counts,
            "lost": lost,
            "views": views,
            "ready_queries": [
                {
                    "name": name,
                    "purpose": one.purpose,
                    "parameters": {
                        p.name: {"default": p.default, "meaning": p.meaning} for p in one.parameters
                    },
                }
                for name, one in known.items()
            ],
        }
        print(json.dumps(document, indent=2))
        return
    console = make_console()
    console.print(f"[bold]tables[/] of {escape(str(warehouse.home.path))} (rows):", soft_wrap=True)
    width = max(len(name) for name in [*counts, *views, *lost])
    for name, n in counts.items():
        console.print(f"  {name:{width}} {n:>12,}", style="dim" if n == 0 else None)
    for said in lost.values():
        console.print(f"  [red]lost[/] {escape(said)}", soft_wrap=True)
    console.print(f"[bold]views[/]: {', '.join(views)}")
    console.print("[bold]ready queries[/] (trace sql NAME --param NAME=VALUE):")
    for one in known.values():
        _print_ready(one)


def _print_ready(query: ReadyQuery) -> None:
    console = make_console()
    console.print(f"  {query.name:20} {escape(query.purpose)}", soft_wrap=True)
    for parameter in query.parameters:
        default = "" if parameter.default is None else f" (default {parameter.default})"
        console.print(
            f"[dim]  {'':20}   {parameter.name}: {escape(parameter.meaning + default)}[/]", soft_wrap=True
        )


# What a query may take of the machine: an hour's mistake ends in a sentence.


GRACE_SECONDS = 5.0
"""How long DuckDB may take to notice that a query was called off: some of its functions never look."""


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Let this process take three quarters of the machine's memory more, and no more.

    DuckDB bounds what it sorts and joins, half of the memory, and puts the rest on disk. The texts and lists
    that a function makes are counted nowhere: without this the kernel would end this process, or another.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = _taken() + memory_bytes() * 3 // 4
    if soft == resource.RLIM_INFINITY or soft > most:
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _taken() -> int:
    """Return the bytes that the limit counts now; 0 where the system does not tell."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData"))
    except (OSError, StopIteration, ValueError):
        return 0


@contextmanager
def bounded_time(seconds: float, call_off: Callable[[], None], tidy: Callable[[], None]) -> Iterator[None]:
    """End what runs inside after so many seconds; 0 lets it run.

    Args:
        seconds: How long it may take.
        call_off: Asks it to end; called from another thread. What then goes on for `GRACE_SECONDS` ends with
            its process, exit code 2.
        tidy: Removes what the query has laid on disk, before its process ends in this way.

    Raises:
        InputError: The time was up.
    """
    done = threading.Event()
    late = threading.Event()

    def watch() -> None:
        if done.wait(seconds):
            return
        late.set()
        call_off()
        if not done.wait(GRACE_SECONDS):
            print(f"trace: {_too_long(seconds)}", file=sys.stderr, flush=True)
            tidy()
            os._exit(2)

    if not seconds:
        yield
        return
    threading.Thread(target=watch, name="time limit", daemon=True).start()
    try:
        yield
    except KeyboardInterrupt:
        if late.is_set():
            raise InputError(_too_long(seconds)) from None
        raise
    finally:
        done.set()


def _too_long(seconds: float) -> str:
    return (
        f"the query ran for more than {seconds:g} s and was ended; ask for less, or give it more time with "
        "`--seconds N` (0: as long as it takes)."
    )


# `trace warehouse build`: the tables for tools that open a DuckDB file.


app = typer.Typer(name="warehouse", help="The tables as a DuckDB file.", no_args_is_help=True)


@app.callback()
def warehouse() -> None:
    """The tables as a DuckDB file, for BI tools, notebooks and the duckdb shell."""


@app.command()
def build(
    file: Annotated[Path, typer.Argument(help="The file to make or replace, such as trace.duckdb.")],
    copy: Annotated[
        bool, typer.Option("--copy", help="Put the rows themselves into the file, to give it away.")
    ] = False,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Write a DuckDB file with a view of every table, and every ready query as a view q_NAME."""
    from trace_assets.store.warehouse_file import build_warehouse

    made = build_warehouse(open_study(config, overrides, writable=False).home, file, copy=copy)
    if as_json:
        print(json.dumps(asdict(made), default=str, indent=2))
        return
    kind = "tables with their rows" if made.copied else f"views of the files in {made.home / 'tables'}"
    console = make_console()
    console.print(
        f"{escape(str(made.file))}: {len(made.tables)} {escape(kind)}, {len(made.views)} further views, "
        f"{len(made.queries)} ready queries (q_...).",
        soft_wrap=True,
    )
    console.print(
        f'Open it with: duckdb -readonly {escape(str(made.file))} -c "FROM q_gap_table"', soft_wrap=True
    )
