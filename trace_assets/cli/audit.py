"""`trace audit`: the audit battery on an environment module."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from trace_assets.cli.console import console as make_console
from trace_assets.cli.options import Config, Json, RequireDocker, Set, open_study
from trace_assets.errors import InputError


def audit(
    file: Annotated[Path, typer.Argument(help="A Python module that follows the environment protocol.")],
    require_docker: RequireDocker = False,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Audit an environment module in the sandbox; exit 0 accepted, 1 rejected, 2 unusable, 3 not run."""
    from trace_assets.stages.synthesis import audit_source

    study = open_study(config, overrides)
    try:
        source = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the module {file} cannot be read ({error}); name a Python file.") from error
    checks, accepted, reasons = audit_source(study, source)
    if as_json:
        document = {"accepted": accepted, "reasons": reasons, "checks": [row.model_dump() for row in checks]}
        print(json.dumps(document, indent=2))
    else:
        console = make_console()
        colours = {"pass": "green", "fail": "red", "skip": "yellow"}
        for row in checks:
            value = "" if row.value is None else f" {row.value:.3g}"
            size = "" if row.n is None else f" (n={row.n})"
            console.print(
                f"[{colours[row.status]}]{row.status}[/] {row.check_id}{value}{size} "
                f"[dim]{escape(row.bound)} {escape(row.seen[:200])}[/]",
                soft_wrap=True,
            )
        console.print("accepted" if accepted else f"rejected: {escape('; '.join(reasons))}", soft_wrap=True)
    raise typer.Exit(0 if accepted else 1)
