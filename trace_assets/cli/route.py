"""`trace route`: which adapter a task would be sent to."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.markup import escape

from trace_assets.cli.console import console as make_console
from trace_assets.cli.options import Config, Json, Set, open_study


def route(
    text: Annotated[str, typer.Argument(help="The first user message of the task.")],
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Say which adapter a task would be sent to, with probabilities; "none" is the base model."""
    from trace_assets.stages.routing import route_text

    decision = route_text(open_study(config, overrides, writable=False), text)
    if as_json:
        print(json.dumps({"choice": decision.choice, "probabilities": decision.probabilities}, indent=2))
        return
    console = make_console()
    for name, probability in sorted(decision.probabilities.items(), key=lambda item: -item[1]):
        mark = "[bold green]→[/]" if name == decision.choice else " "
        console.print(f"{mark} {probability:6.1%}  {escape(name)}")
