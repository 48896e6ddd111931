"""The command `trace`: parses, calls the library, prints, and exits with a code that says how it went.

Exit codes: 0 done, 1 a check failed, 2 wrong usage or input, 3 could not run.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Annotated, NoReturn

import click
import typer
from rich.markup import escape

from trace_assets.cli.commands import COMMANDS
from trace_assets.cli.lazy import examples_epilog, find_study, lazy_group
from trace_assets.cli.loudness import Loudness, choose, loudness
from trace_assets.cli.options import console as make_console
from trace_assets.cli.options import guard_streams, reader_left
from trace_assets.errors import FULL_DISK, TraceError, Unavailable, plain_interrupts, plain_warnings
from trace_assets.system.object_address import is_address
from trace_assets.system.processes import SELDOM

INTERRUPTED = 130
"""Exit code after Ctrl-C."""
READER_LEFT = 128 + signal.SIGPIPE
"""Exit code where `head` or the like had seen enough: the shell's for a program that this has ended."""

THREADS = {"OPENBLAS_NUM_THREADS": "1"}
"""For this process and all that it starts, unless somebody has said otherwise. Matrices outside torch are
small here: further threads gain nothing, and on busy cores they wait for each other a hundred times as long
as they compute."""


def _print_version(given: bool) -> None:
    if given:
        from importlib.metadata import version

        print(f"trace-assets {version('trace-assets')}")
        raise typer.Exit


app = typer.Typer(
    name="trace",
    cls=lazy_group(COMMANDS),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog=examples_epilog(
        (
            "trace diagnose results/*.json   # what does the agent that made these lack?",
            "trace demo                      # the whole loop on a CPU",
        )
    ),
)


@app.callback()
def trace(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", is_eager=True, callback=_print_version, help="Print the version."),
    ] = False,
) -> None:
    """Find what an agent cannot do, teach it, and route to what was taught."""


def main() -> None:
    """Run the command line; a `TraceError` becomes one sentence on standard error and its exit code.

    What was made of a home in an object store is sent there at the end, however the command went.
    """
    try:
        _run()
    except SystemExit as end:
        sent = _end_work()
        code = end.code or sent
        raise SystemExit(READER_LEFT if code == 1 and reader_left() else code) from None
    except BaseException:
        _end_work()
        raise


def _end_work() -> int:
    """Send what was made of a home in an object store, if one was worked on; return the exit code."""
    module = sys.modules.get("trace_assets.store.objects.work")
    if module is None:
        return 0
    try:
        for said in module.end_work():
            print(f"trace: {said}", file=sys.stderr)
    except TraceError as error:
        make_console(stderr=True).print(f"[bold red]trace:[/] {escape(str(error))}", soft_wrap=True)
        return error.exit_code
    except KeyboardInterrupt:
        print("trace: interrupted; what was made is sent by the next command that writes.", file=sys.stderr)
        return INTERRUPTED
    return 0


def _run() -> None:
    gc.set_threshold(*SELDOM)
    for name, value in THREADS.items():  # numpy reads it once, when it is imported
        os.environ.setdefault(name, value)
    guard_streams()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # workers are stopped on the way out
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # a terminal that is closed; nohup ignores it
        signal.signal(signal.SIGHUP, signal.default_int_handler)
    plain_warnings()
    plain_interrupts()
    choose(Loudness.normal)
    find_study()
    try:
        code = app(standalone_mode=False) or 0
        if code == INTERRUPTED:  # typer takes the interruption for an exit code, and says nothing
            raise KeyboardInterrupt
        sys.stdout.flush()
        sys.exit(code)
    except TraceError as error:
        _fail(_of_full_disk(error))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        words = "interrupted; what was finished is kept, the same command goes on from there."
        print(f"trace: {words}", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except Exception as error:
        if isinstance(error, BrokenPipeError) and reader_left():
            sys.exit(1)
        from trace_assets.orchestration.asset_files import explain
        from trace_assets.store.files import chosen_folder

        # A home in an object store is fetched into a folder of the user's.
        named = os.environ.get("TRACE_HOME", "")
        told = explain(error, chosen_folder(Path.home() if is_address(named) else None))
        if told is None:
            raise
        _fail(told)


def _of_full_disk(error: TraceError) -> TraceError:
    """Return what is told of a place that cannot be written: no other one helps where the disk is full."""
    said, (head, _, _) = str(error.__cause__).lower(), str(error).rpartition("; ")
    if head and "disk is full" not in head and any(words in said for words in FULL_DISK):
        return Unavailable(f"{head}: free some space and run the same command again.")
    return error


def _fail(error: TraceError) -> NoReturn:
    if loudness() == Loudness.verbose:
        traceback.print_exception(error)
    make_console(stderr=True).print(f"[bold red]trace:[/] {escape(str(error))}", soft_wrap=True)
    sys.exit(error.exit_code)
