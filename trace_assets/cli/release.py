"""`trace release`: adapters, router, launch files and cards in one folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from trace_assets.cli.console import console as make_console
from trace_assets.cli.options import Config, Json, Set, open_study


def release(
    folder: Annotated[
        Path, typer.Argument(help="Where it is written: a new or empty folder, or an earlier release.")
    ],
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Write what was taught, ready to be served: adapters that a router may choose, the router, how to start.

    The folder is put in place in one step, and the same study gives the same bytes. Exit 1 when no adapter
    is fit to be released.
    """
    from trace_assets.stages.release import release_words, write_release

    made = write_release(open_study(config, overrides), folder)
    if as_json:
        print(made.text(), end="")
        return
    console = make_console()
    for name, words in release_words(made).items():
        console.print(f"[bold]{escape(name)}[/]  {escape(words)}", soft_wrap=True)
    console.print(f"released in {escape(str(folder))}; README.md there says how to serve it", soft_wrap=True)
