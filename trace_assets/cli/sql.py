"""`trace sql`: any question to the tables, in SQL, read-only."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import polars as pl
import typer
from rich.markup import escape

from trace_assets.cli import rows
from trace_assets.cli.console import console as make_console
from trace_assets.cli.options import Config, Set, open_study
from trace_assets.cli.rows import Format
from trace_assets.errors import InputError
from trace_assets.store.ready_query import ReadyQuery, ready_queries
from trace_assets.store.warehouse import Warehouse

TABLE_ROWS = 200


def sql(
    query: Annotated[
        str | None,
        typer.Argument(
            help="A query, a .sql file, or the name of a ready query or table; - reads standard input."
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
        int, typer.Option(min=0, help="Rows that a printed table shows at most; 0 shows all.")
    ] = TABLE_ROWS,
    config: Config = None,
    overrides: Set = None,
) -> None:
    """Query every table in SQL. Without a query: list the tables and the ready queries."""
    given = _parameters(param or [])
    study = open_study(config, overrides, writable=False)
    chosen = rows.format_of(format, output)
    with Warehouse(study.home) as warehouse:
        if query is None:
            if given:
                raise InputError("--param belongs to a query; give a query or the name of a ready one.")
            _list(warehouse, chosen)
            if warehouse.lost():
                raise typer.Exit(1)
            return
        text, values = _resolve(query, given, warehouse)
        frames = warehouse.stream(text, values)
        try:
            with _ended_by_interrupt():
                written = _write(frames, chosen, output, limit)
        except BrokenPipeError:  # the reader, such as `head`, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return
    if output is not None:
        make_console(stderr=True).print(f"{written} rows written to {escape(str(output))}", soft_wrap=True)


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
        return rows.print_table(frames, make_console(), limit)
    with rows.destination(output) as file:
        if chosen is Format.csv:
            return rows.write_csv(frames, file)
        if chosen is Format.json:
            return rows.write_json(frames, file)
        if chosen is Format.parquet:
            return rows.write_parquet(frames, file)
        return rows.write_table(frames, file, 0)


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
        return known[query].sql, known[query].bind(given)
    if query == "-":
        return sys.stdin.read(), given
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
        near = get_close_matches(query, [*known, *tables], 3)
        raise InputError(
            f"'{query}' is neither a query nor the name of a ready query or table"
            + (f"; did you mean {' or '.join(near)}?" if near else "; `trace sql` lists what there is.")
        )
    return query, given


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
