"""Options that every command takes, and the study they open."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from trace_assets.study import Study

Config = Annotated[
    Path | None, typer.Option("--config", help="A trace.toml; the one in the working directory by default.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="Override one setting: section.key=value. May be given several times."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]


def _require_docker(value: bool) -> bool:
    """Tell this process and its children, who make the sandboxes."""
    if value:
        os.environ["TRACE_REQUIRE_DOCKER"] = "1"
    return value


RequireDocker = Annotated[
    bool,
    typer.Option(
        "--require-docker",
        callback=_require_docker,
        help="Run generated code in Docker or not at all, also where sandbox.backend is 'auto'.",
    ),
]


def open_study(config: Path | None, overrides: list[str] | None, *, writable: bool = True) -> Study:
    """Open the study that the options and the environment name, and tell child processes of it.

    Args:
        config: As for `Study.open`.
        overrides: As for `Study.open`.
        writable: False for a command that only looks, which a read-only home will do for.
    """
    if config is None and not os.environ.get("TRACE_CONFIG") and Path("trace.toml").is_file():
        config = Path("trace.toml")
    study = Study.open(None, config, overrides if overrides else None, writable=writable)
    os.environ.update(study.environment(config, overrides or []))
    return study
