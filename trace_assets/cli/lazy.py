"""Commands that are imported when they are called, so that `trace --help` imports none of them."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click
import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group


class LazyCommand(click.Command):
    """What the list of commands shows of one; the command itself is imported by `load`.

    Args:
        name: What it is called by.
        place: `module:name` of its function, or of the `typer.Typer` of a group.
        summary: What `--help` says of it: the first paragraph of its docstring, or the help of the group.
    """

    def __init__(self, name: str, place: str, summary: str) -> None:
        super().__init__(name, help=summary)
        self.place = place

    def load(self) -> click.Command:
        """Import the command."""
        module, _, attribute = self.place.partition(":")
        with _no_collections():
            found = getattr(import_module(f"trace_assets.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            return get_group(found)
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        alone.command(self.name)(found)
        return get_command(alone)


@contextmanager
def _no_collections() -> Iterator[None]:
    """Let the garbage collector rest while modules are imported.

    What they make lives to the end, and looking at all of it again and again is a fifth of that time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def lazy_group(commands: Sequence[LazyCommand]) -> type[TyperGroup]:
    """Return the class of a group of such commands."""

    class LazyGroup(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            for command in commands:
                self.add_command(command)

        def resolve_command(
            self, ctx: click.Context, args: list[str]
        ) -> tuple[str | None, click.Command | None, list[str]]:
            name, command, rest = super().resolve_command(ctx, args)
            return name, command.load() if isinstance(command, LazyCommand) else command, rest

    return LazyGroup
