"""`trace environment`: what a writer will cost, what it wrote in every round, and exports."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from trace_assets.cli.analyst import print_forecast
from trace_assets.cli.console import console as make_console
from trace_assets.cli.options import Config, Json, Set, open_study
from trace_assets.errors import InputError
from trace_assets.records import EnvironmentVersion

app = typer.Typer(
    name="environment",
    help="Generated environments: what writing costs, every version, exports.",
    no_args_is_help=True,
)


@app.command("forecast")
def show_forecast(config: Config = None, overrides: Set = None, as_json: Json = False) -> None:
    """Print what the model calls for the environments of the kept capabilities would cost; makes none."""
    from trace_assets.stages.forecast import spent_so_far
    from trace_assets.stages.writer_forecast import forecast_environments

    study = open_study(config, overrides)
    rows = forecast_environments(study)
    if as_json:
        document = {"environments": [asdict(row) for row in rows], "spent_usd": spent_so_far(study)}
        print(json.dumps(document, indent=2))
    else:
        print_forecast(study, rows, make_console(), study.settings.writer_server, "writer")


@app.command("versions")
def show_versions(
    capability: Annotated[str, typer.Argument(help="A capability's id.")],
    source: Annotated[
        int | None, typer.Option(help="Print the source of this round, and nothing else.")
    ] = None,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Print every version of one capability's environment: the reply, the failed checks, the tokens."""
    study = open_study(config, overrides)
    rows = (
        study.store.read(EnvironmentVersion, capability) if study.store.partitions(EnvironmentVersion) else []
    )
    if not rows:
        known = ", ".join(study.store.partitions(EnvironmentVersion)) or "none yet"
        raise InputError(f"there are no versions of an environment for '{capability}'; there are {known}.")
    if source is not None:
        chosen = [row for row in rows if row.round == source]
        if not chosen:
            raise InputError(f"'{capability}' has no round {source}; it has 0 to {len(rows) - 1}.")
        print(chosen[0].source)
        return
    if as_json:
        print(json.dumps([row.model_dump() for row in rows], indent=2))
        return
    console = make_console()
    for row in rows:
        mark = "[green]kept[/] " if row.kept else "     "
        failed = ", ".join(one.check_id for one in row.failed) or (
            "nothing" if row.audited else "not audited here"
        )
        console.print(
            f"{mark}round {row.round}  {row.writer}  {row.reply}  {row.environment_id or '-'}  "
            f"{row.n_passed} passed, failed: {escape(failed)}  "
            f"[dim]{row.prompt_tokens:,} + {row.completion_tokens:,} tokens[/]",
            soft_wrap=True,
        )
    console.print(escape(rows[-1].outcome), soft_wrap=True)


@app.command("export")
def export(
    which: Annotated[str, typer.Argument(help="A capability's id, or the path of an environment module.")],
    format: Annotated[str, typer.Option(help="The form: openenv, trl or verifiers.")],
    to: Annotated[Path, typer.Option(help="The folder to write; empty, or an earlier export of this form.")],
    anyway: Annotated[bool, typer.Option("--anyway", help="Also one that its audit did not accept.")] = False,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Write one environment as a package for TRL, OpenEnv or verifiers; its code runs in the sandbox only."""
    from trace_assets.stages.environment_exports import export as export_to

    study = open_study(config, overrides)
    files = export_to(study, which, format, to, anyway=anyway)
    if as_json:
        print(json.dumps({"format": format, "folder": str(to), "files": [str(file) for file in files]}))
        return
    console = make_console()
    for file in files:
        console.print(escape(str(file)), soft_wrap=True)
    console.print(
        f"{len(files)} files written; {escape(str(to / 'README.md'))} says how to use them.", soft_wrap=True
    )
