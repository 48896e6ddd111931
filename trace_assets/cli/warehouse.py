"""`trace warehouse build`: the tables for tools that open a DuckDB file."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from trace_assets.cli.console import console as make_console
from trace_assets.cli.options import Config, Json, Set, open_study

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
