"""`trace export`: trajectories out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from trace_assets.cli.console import console
from trace_assets.cli.options import Config, Json, Set, open_study
from trace_assets.exporters.registry import EXPORTERS
from trace_assets.exporters.registry import export as export_to
from trace_assets.exporters.selection import Selection

_FORMATS = ", ".join(EXPORTERS)


def export(
    file: Annotated[Path, typer.Argument(help="The file to write.")],
    format: Annotated[str, typer.Option(help=f"The form: {_FORMATS}.")],
    batch: Annotated[str | None, typer.Option(help="Only this task batch.")] = None,
    target: Annotated[str | None, typer.Option(help="Only this target.")] = None,
    outcome: Annotated[str | None, typer.Option(help="Only passed, failed or unjudged ones.")] = None,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Write stored trajectories in a form that other programs read."""
    study = open_study(config, overrides, writable=False)
    selection = Selection(batch, target, outcome)
    done = export_to(study.store, file, format, selection)
    if as_json:
        print(json.dumps({"path": str(done.path), "written": done.written, "left_out": done.left_out}))
        return
    left = f"; {done.left_out:,} without messages were left out" if done.left_out else ""
    console().print(
        f"{done.written:,} trajectories written to {escape(str(done.path))} as {escape(str(format))}{left}.",
        soft_wrap=True,
    )
