"""What a person is told, and asked, about finished work that is due."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated

import click
import typer
from rich.console import Console
from rich.markup import escape

from trace_assets.assets.sync import Answer, AtRisk
from trace_assets.cli.console import console as make_console
from trace_assets.report.figures import count
from trace_assets.stages.made_with import made_otherwise
from trace_assets.study import Study

Yes = Annotated[
    bool, typer.Option("--yes", help="Replace finished work that is due without asking; scripts need it.")
]
Keep = Annotated[
    bool,
    typer.Option("--keep", help="Leave finished work as it is, and bring everything else up to date."),
]
SHOWN = 12
"""Items that are told one by one."""


def ask_about(
    console: Console,
    *,
    yes: bool = False,
    keep: bool = False,
    paused: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Callable[[Sequence[AtRisk]], Answer]:
    """Return what decides about finished work that is due: an option, or the person at the terminal.

    Without a terminal nobody is asked and nothing replaced.

    Args:
        console: Where the question goes.
        yes: `--yes` was said.
        keep: `--keep` was said.
        paused: Holds back what else is drawn meanwhile.
    """

    def ask(found: Sequence[AtRisk]) -> Answer:
        if keep or yes:
            return "keep" if keep else "replace"
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return "stop"
        with paused():
            console.print("Finished work would be made again, and what is there replaced:")
            tell(found, console)
            said = typer.prompt(
                "Replace it, keep it and go on with the rest, or stop?",
                type=click.Choice(["replace", "keep", "stop"]),
                default="stop",
                err=True,
            )
        answers: dict[str, Answer] = {"replace": "replace", "keep": "keep"}
        return answers.get(said, "stop")

    return ask


def tell(found: Sequence[AtRisk], console: Console) -> None:
    """Print one line an item."""
    for one in found[:SHOWN]:
        item, work, why = (escape(str(part)) for part in (one.item, one.work, one.why))
        console.print(f"  {item}: {work} [dim]({why})[/]", soft_wrap=True)
    if len(found) > SHOWN:
        console.print(f"  and {count(len(found) - SHOWN, 'more item')}")


def refused(found: Sequence[AtRisk]) -> str:
    """Say that nothing finished was replaced, and which options there are."""
    names = " ".join(f"--again {name}" for name in _assets(found))
    return (
        f"finished work is not replaced unasked: {_summary(found)}. Say `{names}` to have it made again, "
        "`--yes` to have everything made that is due, or `--keep` to leave what is finished as it is and "
        "bring the rest up to date."
    )


def _summary(found: Sequence[AtRisk]) -> str:
    first = found[0]
    more = f", and {count(len(found) - 1, 'more item')}" if len(found) > 1 else ""
    return f"{first.item} ({first.work}; {first.why}){more}"


def _assets(found: Sequence[AtRisk]) -> list[str]:
    """Return the shortest names: an asset stands for all of its partitions."""
    items: dict[str, list[str]] = {}
    for one in found:
        items.setdefault(one.item.asset, []).append(str(one.item))
    return [own[0] if len(own) == 1 else asset for asset, own in items.items()]


def tell_settings(study: Study, console: Console | None = None) -> None:
    """Say of stored rollouts that were made with other settings that they were."""
    console = console or make_console(stderr=True)
    for words in made_otherwise(study):
        console.print(f"[yellow]note[/] {escape(words)}", soft_wrap=True)
