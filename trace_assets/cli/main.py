"""The command `trace`: parses, calls the library, prints, and exits with a code that says how it went.

Exit codes: 0 done, 1 a check failed, 2 wrong usage or input, 3 could not run.
"""

from __future__ import annotations

import signal
import sys
from typing import NoReturn

import click
import typer
from rich.markup import escape

from trace_assets.cli.lazy import LazyCommand, lazy_group
from trace_assets.cli.options import console as make_console
from trace_assets.cli.options import guard_streams
from trace_assets.errors import TraceError, plain_warnings

COMMANDS = (
    LazyCommand(
        "demo",
        "pipeline:demo",
        "Run the whole loop on the embedded target: CPU only, minutes, ends with the table.",
    ),
    LazyCommand(
        "doctor",
        "doctor:doctor",
        "Report what this machine can do and how to mend what it cannot; exit 3 when what is wanted cannot.",
    ),
    LazyCommand(
        "ingest",
        "data:ingest",
        "Bring real trajectories into the store; the same files again change nothing, and nothing is played.",
    ),
    LazyCommand("export", "data:export", "Write stored trajectories in a form that other programs read."),
    LazyCommand(
        "diagnose",
        "pipeline:diagnose",
        "Find what the agent lacks in the trajectories that are in the store: no GPU, no torch.",
    ),
    LazyCommand(
        "compare",
        "diagnosis:compare",
        "Say what training (or another model) mended and what it broke: two policies on the same tasks.",
    ),
    LazyCommand(
        "plan",
        "diagnosis:plan",
        "Say how many tasks it takes to select a gap, or to show a gain, at several powers.",
    ),
    LazyCommand(
        "sync",
        "pipeline:sync",
        "Materialize what is missing or stale, with the reason for each; also: run everything.",
    ),
    LazyCommand(
        "sql",
        "sql:sql",
        "Query every table in SQL. Without a query: list the tables and the ready queries.",
    ),
    LazyCommand(
        "show",
        "show:show",
        "Print one trajectory: its messages, its labels, and where and why it failed.",
    ),
    LazyCommand(
        "contract",
        "environment:contract",
        "Read a target's contract off its trajectories: tools, shapes, errors, wording, lengths.",
    ),
    LazyCommand(
        "audit",
        "environment:audit",
        "Audit an environment module in the sandbox; exit 0 accepted, 1 rejected, 2 unusable, 3 not run.",
    ),
    LazyCommand(
        "route",
        "serving:route",
        'Say which adapter a task would be sent to, with probabilities; "none" is the base model.',
    ),
    LazyCommand(
        "serve",
        "serving:serve",
        "Serve the base model and every accepted adapter through vLLM until interrupted.",
    ),
    LazyCommand(
        "router",
        "serving:router",
        "Serve the model `routed` in front of a model server that serves the adapters, until interrupted.",
    ),
    LazyCommand(
        "release",
        "serving:release",
        "Write what was taught, ready to be served: adapters that a router may choose, the router, "
        "how to start.",
    ),
    LazyCommand(
        "report",
        "pipeline:report",
        "Write the HTML page from what is in the store, finished or not, and print its path.",
    ),
    LazyCommand(
        "watch",
        "data:watch",
        "Take new files from the watched folders and diagnose what came; Ctrl-C ends it.",
    ),
    LazyCommand(
        "ui",
        "ui:ui",
        "Open the Dagster UI on this study, with sensors and schedule; an edit of trace.toml is "
        "seen at once.",
    ),
    LazyCommand(
        "settings",
        "settings:settings",
        "List every setting: default, value in force, meaning, and which assets an edit recomputes.",
    ),
    LazyCommand("warehouse", "sql:app", "The tables as a DuckDB file."),
    LazyCommand("tasks", "data:tasks", "Task files for the watched folder."),
    LazyCommand(
        "analyst",
        "diagnosis:app",
        "What a model analyst costs, and whether an analyst keeps its promises.",
    ),
    LazyCommand(
        "environment",
        "environment:app",
        "Generated environments: what writing costs, every version, exports.",
    ),
    LazyCommand(
        "targets",
        "targets:app",
        "Where an agent can be rolled out: benchmarks, and your own targets.",
    ),
)
"""Every command, where it is, and the summary that `trace --help` shows without importing it."""

app = typer.Typer(
    name="trace",
    cls=lazy_group(COMMANDS),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def trace() -> None:
    """Find what an agent cannot do, teach it, and route to what was taught."""


def main() -> None:
    """Run the command line; a `TraceError` becomes one sentence on standard error and its exit code."""
    guard_streams()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # workers are stopped on the way out
    plain_warnings()
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except TraceError as error:
        _fail(error)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        words = "interrupted; what was finished is kept, the same command goes on from there."
        print(f"trace: {words}", file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        from trace_assets.orchestration.asset_files import explain
        from trace_assets.store.files import chosen_folder

        told = explain(error, chosen_folder())
        if told is None:
            raise
        _fail(told)


def _fail(error: TraceError) -> NoReturn:
    make_console(stderr=True).print(f"[bold red]trace:[/] {escape(str(error))}", soft_wrap=True)
    sys.exit(error.exit_code)
