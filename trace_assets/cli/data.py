"""`trace ingest` and `trace sql`: trajectories in, answers out."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import polars as pl
import typer
from rich.markup import escape
from rich.table import Table

from trace_assets.cli.console import console as make_console
from trace_assets.cli.options import Config, Json, Set, open_study
from trace_assets.errors import InputError
from trace_assets.stages.ingest import ingest as ingest_files
from trace_assets.store.warehouse import Warehouse, describe, ready_queries


def ingest(
    files: Annotated[list[Path], typer.Argument(help="Trajectory files.")],
    format: Annotated[str, typer.Option(help="A format's name, or auto to look at each file.")] = "auto",
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Bring real trajectories into the store; the same files again change nothing."""
    from trace_assets.cli.progress import run_sync

    study = open_study(config, overrides)
    outcome = ingest_files(study, files, format)
    batches = sorted({*outcome.new, *outcome.unchanged})
    synced = run_sync(
        study,
        ["tasks", "trajectories", "config/targets", "config/rollouts"],
        batches,
        quiet=True,
        force=outcome.new,
    )
    console, errors = make_console(), make_console(stderr=True)
    for problem in outcome.problems:
        errors.print(f"[yellow]{problem.severity}[/]: {escape(str(problem))}", soft_wrap=True)
    if as_json:
        document = {
            "new": outcome.new,
            "unchanged": outcome.unchanged,
            "problems": [problem.model_dump() for problem in outcome.problems],
        }
        print(json.dumps(document, indent=2))
    else:
        for batch, n in sorted(outcome.new.items()):
            console.print(f"{batch}: {n} trajectories")
        for batch in sorted(outcome.unchanged):
            console.print(f"{batch}: unchanged")
        total = sum(outcome.new.values())
        console.print(f"{total} trajectories ingested into {study.home.path}. Next: [bold]trace diagnose[/]")
    raise typer.Exit(max(synced.exit_code, 1 if outcome.errors else 0))


class Format(StrEnum):
    """How rows are printed."""

    table = "table"
    csv = "csv"
    json = "json"


def sql(
    query: Annotated[
        str | None, typer.Argument(help="A query, a .sql file, or the name of a ready query.")
    ] = None,
    format: Annotated[Format, typer.Option(help="How to print the rows.")] = Format.table,
    config: Config = None,
    overrides: Set = None,
) -> None:
    """Query every table in SQL. Without a query: list the tables and the ready queries."""
    study = open_study(config, overrides)
    with Warehouse(study.home) as warehouse:
        if query is None:
            _list(warehouse)
            return
        frame = warehouse.query(_text(query))
    if format is Format.csv:
        print(_flat(frame).write_csv(), end="")
    elif format is Format.json:
        print(json.dumps(frame.to_dicts(), default=str, indent=2, ensure_ascii=False))
    else:
        _print(frame)


def _text(query: str) -> str:
    if query in ready_queries():
        return ready_queries()[query].read_text(encoding="utf-8")
    if query.endswith(".sql"):
        try:
            return Path(query).read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(
                f"the query file {query} cannot be read ({error.strerror}); ready queries are "
                f"{', '.join(ready_queries())}."
            ) from error
    return query


def _list(warehouse: Warehouse) -> None:
    console = make_console()
    console.print(f"[bold]tables and views[/]: {', '.join(warehouse.tables())}")
    console.print("[bold]ready queries[/] (trace sql NAME):")
    for name, path in ready_queries().items():
        console.print(f"  {name:20} {describe(path)}")


def _flat(frame: pl.DataFrame) -> pl.DataFrame:
    """Make nested columns text: CSV has no lists."""
    nested = [name for name, dtype in frame.schema.items() if dtype.is_nested()]
    return frame.with_columns(
        pl.Series(name, [json.dumps(value, default=str) for value in frame[name].to_list()])
        for name in nested
    )


def _print(frame: pl.DataFrame) -> None:
    table = Table(show_edge=False, pad_edge=False)
    for name, dtype in frame.schema.items():
        table.add_column(name, justify="right" if dtype.is_numeric() else "left", overflow="fold")
    for row in frame.iter_rows():
        table.add_row(*("" if value is None else escape(str(value)) for value in row))
    console = make_console()
    console.print(table)
    console.print(f"[dim]{frame.height} rows[/]")
