"""Options that commands share, what a shell completes of them, and the study that they open."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, TextIO, cast

import click
import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.text import Text

from trace_assets.cli.lazy import go_to_study
from trace_assets.cli.loudness import PANEL, Loudness, heard, loudness
from trace_assets.errors import PRINTED, InputError, did_you_mean
from trace_assets.system.object_address import is_address
from trace_assets.untrusted.printable import printable

if TYPE_CHECKING:
    from trace_assets.orchestration.planner import Item
    from trace_assets.serving.release.hub import Upload
    from trace_assets.study import Study


def _beginning(names: Iterable[str], begun: str) -> list[str]:
    return sorted(name for name in names if name.startswith(begun))


def complete_setting(incomplete: str) -> list[str]:
    """Complete `section.key=`."""
    from trace_assets.settings import Settings
    from trace_assets.settings.settings import keys_of

    names = (f"{section}.{key}=" for section in Settings.model_fields for key in keys_of(section))
    return _beginning(names, incomplete)


def complete_section(incomplete: str) -> list[str]:
    """Complete the name of a section."""
    from trace_assets.settings import Settings

    return _beginning(Settings.model_fields, incomplete)


def complete_query(incomplete: str) -> list[str]:
    """Complete the name of a ready query."""
    from trace_assets.store.views import ready_queries

    return _beginning(ready_queries(), incomplete)


def complete_asset(incomplete: str) -> list[str]:
    """Complete the name of an asset."""
    from trace_assets.definitions import pipeline

    return _beginning((asset.name for asset in pipeline()), incomplete)


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="A trace.toml; by default the one here, or in the nearest folder above that holds a study.",
        rich_help_panel=PANEL,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Override one setting: section.key=value. May be given several times.",
        rich_help_panel=PANEL,
        autocompletion=complete_setting,
    ),
]
Json = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON document instead of tables.", rich_help_panel=PANEL),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="With --hub: write what would be pushed, list it, and push nothing."),
]
Public = Annotated[bool, typer.Option("--public", help="With --hub: new repositories are public.")]


MANY = 1_000_000
"""More than anybody counts on a command line: what lies above is a slip, and would never end."""
MOST_SEED = (1 << 63) - 1
"""No table holds a larger one."""


def _require_docker(value: bool) -> bool:
    """Tell this process and its children, who make the sandboxes."""
    if value:
        os.environ["TRACE_REQUIRE_DOCKER"] = "1"
    return value


Yes = Annotated[
    bool, typer.Option("--yes", help="Replace finished work that is due without asking; scripts need it.")
]
Keep = Annotated[
    bool,
    typer.Option("--keep", help="Leave finished work as it is, and bring everything else up to date."),
]
RequireDocker = Annotated[
    bool,
    typer.Option(
        "--require-docker",
        callback=_require_docker,
        help="Run generated code in Docker or not at all, also where sandbox.backend is 'auto'.",
    ),
]


def open_study(
    config: Path | None, overrides: list[str] | None, *, writable: bool = True, whole: bool = False
) -> Study:
    """Open the study that the options and the environment name, and tell child processes of it.

    Args:
        config: As for `Study.open`.
        overrides: As for `Study.open`.
        writable: False for a command that only looks, which a read-only home will do for.
        whole: Of a home in an object store: a command that only looks needs more than the tables.
    """
    from trace_assets.store.unfinished import words_on_removals
    from trace_assets.study import Study

    go_to_study()
    if config is None and not os.environ.get("TRACE_CONFIG") and Path("trace.toml").is_file():
        config = Path("trace.toml")
    study = Study.open(_fetched(writable, whole), config, overrides if overrides else None, writable=writable)
    if not writable and (words := words_on_removals(study.home.path)):
        print(f"trace: {words}.", file=sys.stderr)
    if loudness() == Loudness.verbose:
        named = config or os.environ.get("TRACE_CONFIG") or "the defaults"
        print(f"trace: home {study.home.path}, settings {named}", file=sys.stderr)
    os.environ.update(study.environment(config, overrides or []))
    return study


def leave_home_alone(study: Study, place: Path | None) -> None:
    """Have no result written over what the study keeps, nor in among its tables, where it counts as rows.

    Args:
        study: The study.
        place: Where a result is to go; None for no file.

    Raises:
        InputError: The place is a file of the home, or in one of its folders that is not for pages.
    """
    if place is None:
        return
    home, path = study.home.path.resolve(), place.expanduser().absolute().resolve()
    if not path.is_relative_to(home):
        return
    top = home / (path.relative_to(home).parts or (".",))[0]
    if top == study.home.reports.resolve() or not (path.exists() or (top.is_dir() and top != path)):
        return
    raise InputError(
        f"{place} lies among what the home {study.home.path} keeps, which is not to be written over; name a "
        "place outside it."
    )


def _fetched(writable: bool, whole: bool) -> Path | None:
    """Return the folder for a home in an object store, where `TRACE_HOME` names one."""
    named = os.environ.get("TRACE_HOME", "")
    if not is_address(named):
        return None
    if writable:
        from trace_assets.store.objects.work import work_on

        return work_on(named)
    from trace_assets.store.objects.download import mirror

    return mirror(named, whole=whole)


# Where commands print: as wide as the terminal, and wide enough for tables when there is none.


WIDTH_WITHOUT_TERMINAL = 130


class PrintableConsole(Console):
    """A console whose colours and cursor are its own: what is printed brings none, and no links."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Read a text with markup."""
        return super().render_str(printable(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Turn anything into pieces of text, each of them printable."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            if control or (text == printable(text) and not (style and style.link)):
                yield segment
            else:
                yield Segment(printable(text), style.update_link(None) if style else None)


_failed: set[int | None] = set()
"""Numbers of errors that a standard stream met; the errors would keep alive all that was at work."""


class _Output(io.FileIO):
    """What a standard stream writes to: its errors name it, and after one the rest leads nowhere."""

    def write(self, data: Any, /) -> int:
        """Write bytes."""
        try:
            return super().write(data)
        except OSError as error:
            error.filename = PRINTED
            _failed.add(error.errno)
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), self.fileno())  # or the interpreter would try once more at its end
            raise


def reader_left() -> bool:
    """Whether whoever read what is printed, such as `head`, has seen enough."""
    return errno.EPIPE in _failed


class PrintableStream:
    """A text stream on which whatever is printed is printable: also tracebacks, warnings and logs.

    A console draws past it: rich looks for `rich_proxied_file`. So does what is written to `buffer`, which is
    data for another program.
    """

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        """Write a text."""
        # A bar is drawn over by a line that begins so; it does no harm where a line begins anyway.
        heard()
        begin = "\r" if text.startswith("\r") and not text.startswith("\r\n") else ""
        self.rich_proxied_file.write(begin + printable(text[len(begin) :]))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write some texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def guard_streams() -> None:
    """Have nothing reach standard output and standard error, from now on, that is not printable.

    One that was closed (`>&-`) leads nowhere: else the next file to be opened, such as a database, would have
    its number, and what a child process prints would be written into that.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # has the lowest number that is free, so this one
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115
        stream = getattr(sys, name)
        raw = getattr(stream.buffer, "raw", stream.buffer) if type(stream) is io.TextIOWrapper else None
        if isinstance(raw, io.FileIO):
            stream.flush()
            output = _Output(number, "w", closefd=False)
            stream = io.TextIOWrapper(
                # `python -u`, or PYTHONUNBUFFERED, has no buffer before it.
                cast(IO[bytes], output) if raw is stream.buffer else io.BufferedWriter(output),
                encoding=stream.encoding,
                errors=stream.errors,
                line_buffering=stream.line_buffering,
                write_through=stream.write_through,
            )
        if not isinstance(stream, PrintableStream):
            setattr(sys, name, PrintableStream(stream))


def console(*, stderr: bool = False, file: IO[str] | None = None, width: int | None = None) -> Console:
    """Return a console for standard output, standard error or a file."""
    stream = sys.stderr if stderr else sys.stdout
    if file is None and isinstance(stream, PrintableStream):
        # Named outright: while a bar is drawn, rich puts a stream of its own before this one.
        file = cast(IO[str], stream.rich_proxied_file)
    if width is None and not (file or stream).isatty():
        width = WIDTH_WITHOUT_TERMINAL
    return PrintableConsole(file=file, stderr=stderr, highlight=False, width=width)


# Names of assets and of their partitions, as they are given on the command line.


def known_items(study: Study, names: Sequence[str]) -> list[Item]:
    """Return the items that names such as `routing`, `adapter` or `adapter[x]` stand for.

    Returns:
        The items; the name of a partitioned asset alone stands for all of its partitions.

    Raises:
        InputError: There is no such asset, or it has no such partition.
    """
    from trace_assets.definitions import graph
    from trace_assets.orchestration.forecast import Scope
    from trace_assets.orchestration.instance import prepare_instance, register_batches
    from trace_assets.orchestration.planner import Item, nodes_of
    from trace_assets.store.names import chosen_name

    if not names:
        return []
    nodes = nodes_of(graph(study))
    for asset in (name.partition("[")[0] for name in names):
        if asset not in nodes:
            every = f"; there are {', '.join(sorted(nodes))}."
            raise InputError(f"there is no asset '{asset}'{did_you_mean(asset, nodes, every)}")
    if all(name in nodes and nodes[name].dimension is None for name in names):
        return [
            Item(name, "") for name in names
        ]  # nothing to look up in the history, which takes long to open
    found: list[Item] = []
    with prepare_instance(study.home, to_look=True) as instance:
        scope = Scope(study, names)
        register_batches(instance, study, live=scope.live)
        for name in names:
            asset, bracket, rest = name.partition("[")
            dimension = nodes[asset].dimension
            keys = [""] if dimension is None else sorted(instance.get_dynamic_partitions(dimension))
            if not bracket:
                found += [Item(asset, key) for key in keys]
                continue
            partition = rest.removesuffix("]")
            if dimension is None:
                raise InputError(f"'{asset}' has no partitions; write '{asset}' in place of '{name}'.")
            if not rest.endswith("]"):
                raise InputError(f"'{name}' lacks its closing bracket; write '{asset}[{partition}]'.")
            try:
                partition = chosen_name("partition", partition, keys)
            except InputError as error:
                raise InputError(f"'{name}': {error}") from None
            if scope(Item(asset, partition)) == "left out":
                raise InputError(f"'{name}' cannot be made with these settings. {' '.join(scope.notes())}")
            found.append(Item(asset, partition))
    return found


def refuse_without_owner(owner: str, *, dry_run: bool, public: bool) -> None:
    """Refuse options that mean nothing without an owner.

    Raises:
        InputError: One is given.
    """
    for given, name in ((dry_run, "--dry-run"), (public, "--public")):
        if given and not owner:
            raise InputError(f"{name} is for the hub: name the owner in --hub.")


def push(staged: Sequence[Upload], *, dry_run: bool, public: bool) -> list[dict[str, Any]]:
    """Push what was staged unless it is only to be looked at; return what is told of each repository."""
    from trace_assets.serving.release.hub import upload

    commits = [""] * len(staged) if dry_run else upload(staged, private=not public)
    return [
        {
            "repo": one.repo,
            "kind": one.kind,
            "folder": str(one.folder),
            "files": list(one.files),
            "commit": commit,
        }
        for one, commit in zip(staged, commits, strict=True)
    ]


def tell_pushed(pushed: Sequence[dict[str, Any]]) -> None:
    """Print one line a repository; one without a commit was not pushed."""
    for one in pushed:
        console().print(
            f"{'pushed' if one['commit'] else 'would push'} {escape(one['repo'])} from "
            f"{escape(one['folder'])}: "
            + ", ".join(f"{escape(name)} ({size:,} bytes)" for name, size in one["files"]),
            soft_wrap=True,
        )


def confirm(question: str, *, default: bool = False) -> bool:
    """Ask a person at a terminal for yes or no."""
    _hear_interrupts()
    return typer.confirm(question, default=default, err=True)


def choose_answer(question: str, answers: Sequence[str], default: str) -> str:
    """Ask a person at a terminal for one of several answers."""
    _hear_interrupts()
    return str(typer.prompt(question, type=click.Choice(answers), default=default, err=True))


def _hear_interrupts() -> None:
    """Have Ctrl-C end a question: polars has the system begin a read again that a signal came between."""
    signal.siginterrupt(signal.SIGINT, True)
