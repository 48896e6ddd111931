"""Commands that are imported when they are called, so that `trace --help` imports none of them.

A command works on the study here, or in the nearest folder further up, as with git.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import typer
from rich.markup import escape
from typer.core import TyperGroup
from typer.main import get_command, get_group

from trace_assets.cli.loudness import heartbeat, loudness_options
from trace_assets.system.processes import no_collections

CLICK_SUGGESTS = hasattr(click, "NoSuchCommand") or hasattr(click.exceptions, "NoSuchCommand")
"""Newer ones name the nearest command themselves; typer would do so a second time."""
HOME = ".trace"
SETTINGS = "trace.toml"

_found: Path | None = None


class LazyCommand(click.Command):
    """What the list of commands shows of one; the command itself is imported by `load`.

    Args:
        name: What it is called by.
        place: `module:name` of its function, or of the `typer.Typer` of a group.
        summary: What `--help` says of it: the first paragraph of its docstring, or the help of the group.
        panel: Under which heading the list has it.
        examples: Calls, each with `# what it does` where that is not plain.
        serves: Whether it waits for others until it is ended, so that its silence says nothing.
    """

    def __init__(
        self,
        name: str,
        place: str,
        summary: str,
        *,
        panel: str,
        examples: Sequence[str],
        serves: bool = False,
    ) -> None:
        super().__init__(name, help=summary)
        self.place, self.examples, self.serves = place, tuple(examples), serves
        self.rich_help_panel = panel  # typer's help looks for it

    def load(self) -> click.Command:
        """Import the command."""
        module, _, attribute = self.place.partition(":")
        with no_collections():
            found = getattr(import_module(f"trace_assets.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            command: click.Command = get_group(found)
            if isinstance(command, TyperGroup):
                command.suggest_commands = not CLICK_SUGGESTS
        else:
            alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
            alone.command(self.name)(found)
            command = get_command(alone)
        command.epilog = examples_epilog(self.examples)
        for leaf in _leaves(command):
            leaf.help = _unwrapped(leaf.help or "")
            leaf.params += loudness_options()
            _take_paths_from_here(leaf)
            _take_finite_numbers(leaf)
        return command


def examples_epilog(examples: Sequence[str]) -> str:
    """Return examples as they stand below a command's help, one a line."""
    lines = []
    for one in examples:
        call, mark, words = one.partition("#")
        lines.append(f"  {escape(call)}" + (f"[dim]# {escape(words.strip())}[/]" if mark else ""))
    return "\n\n".join(["[dim]Examples[/]", *lines])


def _unwrapped(text: str) -> str:
    """Return a docstring with one line a paragraph: the terminal's width decides where lines end."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _leaves(command: click.Command) -> Iterator[click.Command]:
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            yield from _leaves(inner)
    else:
        yield command


def _take_paths_from_here(command: click.Command) -> None:
    """A study that lies further up is worked on from its own folder: files named on the way stay as meant."""
    for parameter in command.params:
        if isinstance(parameter.type, click.Path) and is_below_study():
            parameter.type.resolve_path = True


class Finite(click.types.FloatParamType):
    """A number; `nan`, which no bound holds back, and `inf` are none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read one."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


class FiniteRange(click.FloatRange):
    """Likewise with bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read one."""
        return super().convert(Finite().convert(value, param, ctx), param, ctx)


def _take_finite_numbers(command: click.Command) -> None:
    for parameter in command.params:
        kind = parameter.type
        if isinstance(kind, click.FloatRange):
            parameter.type = FiniteRange(kind.min, kind.max, kind.min_open, kind.max_open, kind.clamp)
        elif isinstance(kind, click.types.FloatParamType):
            parameter.type = Finite()


def lazy_group(commands: Sequence[LazyCommand]) -> type[TyperGroup]:
    """Return the class of a group of such commands."""

    class LazyGroup(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self.suggest_commands = not CLICK_SUGGESTS
            self.params += loudness_options()
            for command in commands:
                self.add_command(command)

        def resolve_command(
            self, ctx: click.Context, args: list[str]
        ) -> tuple[str | None, click.Command | None, list[str]]:
            name, command, rest = super().resolve_command(ctx, args)
            if not isinstance(command, LazyCommand):
                return name, command, rest
            if not command.serves and not ctx.resilient_parsing:
                ctx.with_resource(heartbeat(f"trace {name} is at work"))
            return name, command.load(), rest

    return LazyGroup


def study_above(here: Path) -> Path | None:
    """Return the nearest folder above `here` that holds a home or settings; None when `here` does, or none.

    A folder of somebody else's is passed by: its settings name programs that would be run.
    """
    if _holds_study(here):
        return None
    return next((folder for folder in here.parents if _holds_study(folder)), None)


def _holds_study(folder: Path) -> bool:
    return any(
        found.exists() and found.stat().st_uid in (os.getuid(), 0)
        for found in (folder / HOME, folder / SETTINGS)
    )


def find_study() -> None:
    """Look for the study of this process, where `TRACE_HOME` does not name it."""
    global _found
    _found = None if os.environ.get("TRACE_HOME") else study_above(Path.cwd())


def is_below_study() -> bool:
    """Whether the study lies further up."""
    return _found is not None


def go_to_study() -> None:
    """Work in the study's folder: paths in its settings are relative to it."""
    if _found is not None:
        os.chdir(_found)
