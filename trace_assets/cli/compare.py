"""`trace compare`: two policies on the same tasks."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trace_assets.cli.console import console as make_console
from trace_assets.cli.finished import tell_settings
from trace_assets.cli.options import Config, Json, Set, open_study
from trace_assets.errors import InputError
from trace_assets.records import PolicyContrast
from trace_assets.report import figures


def compare(
    policies: Annotated[
        list[str] | None, typer.Argument(help="Two policies; without any, all that share ten tasks.")
    ] = None,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Say what training (or another model) mended and what it broke: two policies on the same tasks."""
    from trace_assets.stages.policy_contrast import compare_policies

    if policies and len(policies) != 2:
        raise InputError(f"name two policies or none, got {len(policies)}: {', '.join(policies)}.")
    study = open_study(config, overrides, writable=False)
    rows = compare_policies(study, (policies[0], policies[1]) if policies else None)
    tell_settings(study)
    if as_json:
        print(json.dumps([row.model_dump(mode="json") for row in rows], indent=2))
        return
    console = make_console()
    if not rows:
        console.print("No two policies share ten tasks of one target; run `trace diagnose` after ingesting.")
    for target, weak, strong in sorted({(row.target, row.weak, row.strong) for row in rows}):
        own = [row for row in rows if (row.target, row.weak, row.strong) == (target, weak, strong)]
        _print(own, console)


def _print(rows: list[PolicyContrast], console: Console) -> None:
    first = rows[0]
    table = Table(
        title=f"{first.target}: {first.weak} (weak) against {first.strong} (strong)",
        caption="rates of lacking where both needed it, paired by task; 95 % intervals",
        title_justify="left",
        caption_justify="left",
        caption_style="dim",
        box=box.SIMPLE_HEAD,
        header_style="dim",
        pad_edge=False,
    )
    table.add_column("what", ratio=2, min_width=14)
    for name in ("weak", "strong", "difference", "p / q", "tasks", "mended", "broken"):
        table.add_column(name, no_wrap=True)
    for row in sorted(rows, key=lambda row: (row.capability_id != "", -(row.difference or 0.0))):
        cells = (
            figures.share(row.weak_rate, row.weak_low, row.weak_high),
            figures.share(row.strong_rate, row.strong_low, row.strong_high),
            figures.share(row.difference, row.difference_low, row.difference_high),
        )
        table.add_row(
            escape(row.name),
            *(escape(cell.replace(" [", "\n[")) for cell in cells),
            f"{figures.p_value(row.p_value)}\n{figures.p_value(row.q_value)}",
            str(row.n_tasks),
            f"{row.n_mended}\n[dim]{row.n_gained} gained[/]",
            f"{row.n_broken}\n[dim]{row.n_lost} lost[/]",
            style="bold" if not row.capability_id else "",
        )
    console.print(table)
