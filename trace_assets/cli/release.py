"""`trace release`: adapters, router, launch files and cards in one folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from trace_assets.cli.console import console as make_console
from trace_assets.cli.options import Config, Json, Set, open_study
from trace_assets.errors import InputError
from trace_assets.study import Study

JUDGING = ("adapter_validation", "routing", "evaluation")
"""Assets whose figures about the adapters a release repeats."""


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
    is fit to be released, 2 when one was trained anew and not judged since.
    """
    from trace_assets.stages.release import release_words, write_release

    study = open_study(config, overrides)
    refuse_figures_of_others(study)
    made = write_release(study, folder)
    if as_json:
        print(made.text(), end="")
        return
    console = make_console()
    for name, words in release_words(made).items():
        console.print(f"[bold]{escape(name)}[/]  {escape(words)}", soft_wrap=True)
    console.print(f"released in {escape(str(folder))}; README.md there says how to serve it", soft_wrap=True)


def refuse_figures_of_others(study: Study) -> None:
    """Refuse a study in which an adapter was made anew after it was validated, routed to or evaluated.

    Tables name adapters, not their weights, so the figures would be printed as the new one's.

    Raises:
        InputError: There is such an adapter.
    """
    from trace_assets.assets.instance import prepare_instance
    from trace_assets.assets.staleness import plan
    from trace_assets.definitions import build

    with prepare_instance(study.home) as instance:
        for step in plan(build(study), instance, JUDGING):
            for why in step.reason.split("; "):
                if step.item.asset in JUDGING and why.startswith(("adapter[", "a partition of adapter ")):
                    raise InputError(
                        f"the figures of {step.item} are those of other adapters ({why}): "
                        "run `trace sync`, then release."
                    )
