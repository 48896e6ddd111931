"""`trace ingest`: trajectories in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from trace_assets.cli.console import console as make_console
from trace_assets.cli.finished import tell_settings
from trace_assets.cli.options import Config, Json, Set, open_study
from trace_assets.stages.ingest import ingest as ingest_files


def ingest(
    files: Annotated[list[Path], typer.Argument(help="Trajectory files, or folders of them.")],
    format: Annotated[str, typer.Option(help="A format's name, or auto to look at each file.")] = "auto",
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="Take the place of a file of the same name, though it held trajectories that are gone.",
        ),
    ] = False,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Bring real trajectories into the store; the same files again change nothing, and nothing is played."""
    from trace_assets.cli.progress import run_sync

    study = open_study(config, overrides)
    outcome = ingest_files(study, files, format, again)
    batches = sorted({*outcome.new, *outcome.unchanged})
    synced = run_sync(
        study,
        ["tasks", "trajectories", "config/targets", "config/rollouts"],
        batches,
        quiet=True,
        plays=(),
        keep=True,
    )
    console, errors = make_console(), make_console(stderr=True)
    for severity, line in outcome.problems.lines():
        errors.print(f"[yellow]{severity}[/]: {escape(line)}", soft_wrap=True)
    if as_json:
        document = {
            "new": outcome.new,
            "unchanged": outcome.unchanged,
            "messages": outcome.messages,
            "skipped": list(outcome.skipped),
            "problems": [problem.model_dump() for problem in outcome.problems],
            "problem_counts": [
                {"path": path, "kind": kind, "severity": severity, "n": n}
                for (path, kind, severity), n in outcome.problems.counts.items()
            ],
        }
        print(json.dumps(document, indent=2))
    else:
        for batch, n in sorted({**outcome.unchanged, **outcome.new}.items()):
            same = "" if batch in outcome.new else " (unchanged)"
            messages = outcome.messages.get(batch, 0)
            console.print(f"{escape(batch)}: {n:,} trajectories, {messages:,} messages{same}")
        total = sum(outcome.new.values())
        console.print(
            f"{total:,} trajectories ingested into {escape(str(study.home.path))}, "
            f"{len(outcome.problems):,} problems. Next: [bold]trace diagnose[/]"
        )
    tell_settings(study)
    raise typer.Exit(max(synced.exit_code, 1 if outcome.problems.errors else 0))
