"""`trace serve`: the base model and its accepted adapters behind an OpenAI-compatible server."""

from __future__ import annotations

import shlex
import time
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from trace_assets.cli.console import console as make_console
from trace_assets.cli.options import Config, Set, open_study
from trace_assets.errors import Unavailable
from trace_assets.records import ServedParity
from trace_assets.serving.launch import find_vllm
from trace_assets.serving.server import ModelServer
from trace_assets.stages.serving import check_served, launch_of, log_file

ENDING = 10.0
"""Seconds in which a server whose engine has died closes itself."""


def serve(
    check_only: Annotated[
        bool, typer.Option("--check", help="Start, compare every adapter with the trained model, and stop.")
    ] = False,
    unchecked: Annotated[
        bool, typer.Option("--unchecked", help="Serve without comparing anything first.")
    ] = False,
    show: Annotated[bool, typer.Option("--print", help="Print vLLM's command line only.")] = False,
    config: Config = None,
    overrides: Set = None,
) -> None:
    """Serve the base model and every accepted adapter through vLLM until interrupted.

    Adapters are named by the hash of their content. Before anything is announced, every adapter's
    log-probabilities are compared with the trained model's: a server that differs is stopped, exit 1.
    """
    study = open_study(config, overrides)
    launch = launch_of(study)
    section = study.settings.serving
    if show:
        variables = [f"{name}={value}" for name, value in launch.variables().items()]
        print(" ".join([*variables, *map(shlex.quote, [*find_vllm(section.command), *launch.arguments()])]))
        return
    console = make_console()
    server = ModelServer(
        launch,
        log_file(study),
        command=find_vllm(section.command),
        start_seconds=section.start_seconds,
    )
    with server:
        rows = [] if unchecked else check_served(study, launch.base_url)
        if any(not row.passed and not row.n_episodes for row in rows) and (gone := server.why_gone(ENDING)):
            raise Unavailable(gone)  # not compared: whether an adapter differs is not known
        _show(rows, console)
        if not all(row.passed for row in rows):
            raise typer.Exit(1)
        if check_only:
            return
        names = [launch.name, *launch.adapters]
        console.print(
            f"serving at [bold]{launch.base_url}[/]; models: {escape(', '.join(names))}", soft_wrap=True
        )
        console.print(f"[dim]log: {escape(str(server.log))}; stop with Ctrl-C[/]", soft_wrap=True)
        try:
            while server.alive:
                time.sleep(0.5)
        except KeyboardInterrupt:
            console.print("stopping")
            return
        raise Unavailable(f"the model server ended by itself; its last words are in {server.log}.")


def _show(rows: list[ServedParity], console: Console) -> None:
    for row in rows:
        mark = "[green]same[/]" if row.passed else "[red]DIFFERS[/]" if row.n_episodes else "[red]UNKNOWN[/]"
        console.print(f"{mark} {escape(row.served_as)}  [dim]{escape(row.detail)}[/]", soft_wrap=True)
