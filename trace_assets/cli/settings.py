"""`trace settings`: what there is to set, what is in force, and what an edit recomputes."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from trace_assets.cli.options import Config, Json, Set, complete_section, open_study
from trace_assets.cli.options import console as make_console
from trace_assets.settings import Settings
from trace_assets.settings.settings import SettingRow, json_schema, setting_rows


def settings(
    section: Annotated[
        str | None, typer.Argument(help="One section, such as selection.", autocompletion=complete_section)
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of trace.toml, for editors.")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="Also what is for experts.")] = False,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """List every setting: default, value in force, meaning, and which assets an edit recomputes.

    Of all sections at once, keys for experts are named alone, unless one is set; `--all`, or one section,
    shows them as well.
    """
    if schema:
        print(json.dumps(json_schema(), indent=2))
        return
    study = open_study(config, overrides, writable=False)
    rows = setting_rows(study.settings, section_readers(), section)
    if as_json:
        print(json.dumps([row.model_dump(mode="json") for row in rows], indent=2))
        return
    for name, keys in groupby(rows, key=lambda row: row.section):
        _print_section(name, list(keys), everything or section is not None)


def section_readers() -> dict[str, list[str]]:
    """Return the assets that read each section, as they declare it, in pipeline order."""
    from trace_assets.definitions import pipeline

    readers: dict[str, list[str]] = {}
    for asset in pipeline():
        for parent in asset.deps:
            if parent.startswith("config/"):
                readers.setdefault(parent.removeprefix("config/"), []).append(asset.name)
    return readers


def _print_section(name: str, rows: list[SettingRow], everything: bool) -> None:
    console = make_console()
    said = Settings().section(name).sentence()
    console.print(f"[bold]\\[{name}][/] {escape(said)}", soft_wrap=True)
    recomputed = next((row.recomputes for row in rows if row.recomputes), ())
    console.print(
        f"An edit recomputes {', '.join(recomputed)}, and what stands on their results."
        if recomputed
        else "An edit recomputes nothing.",
        soft_wrap=True,
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("key", no_wrap=True)
    for column in ("default", "value", "meaning"):
        table.add_column(column, overflow="fold")
    shown = [row for row in rows if everything or not row.expert or row.value != row.default]
    for row, before in zip(shown, [None, *shown], strict=False):
        if row.expert and before is not None and not before.expert:
            table.add_section()
        value = escape(json.dumps(row.value))
        meaning = row.meaning if row.recomputes or not recomputed else f"{row.meaning} Recomputes nothing."
        table.add_row(
            row.key,
            escape(json.dumps(row.default)),
            value if row.value == row.default else f"[bold]{value}[/]",
            escape(meaning),
        )
    console.print(table)
    if rest := [row.key for row in rows if row not in shown]:
        console.print(f"[dim]for experts: {', '.join(rest)} (trace settings {name})[/]", soft_wrap=True)
