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

from trace_assets.cli import (
    analyst,
    audit,
    compare,
    contract,
    data,
    doctor,
    environment,
    export,
    pipeline,
    plan,
    release,
    route,
    router,
    serve,
    sql,
    targets,
    ui,
    warehouse,
    watch,
)
from trace_assets.cli.console import console as make_console
from trace_assets.cli.console import guard_streams
from trace_assets.errors import TraceError, plain_warnings

app = typer.Typer(
    name="trace",
    help="Find what an agent cannot do, teach it, and route to what was taught.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

for command in (
    pipeline.demo,
    doctor.doctor,
    data.ingest,
    export.export,
    pipeline.diagnose,
    compare.compare,
    plan.plan,
    pipeline.sync,
    sql.sql,
    contract.contract,
    audit.audit,
    route.route,
    serve.serve,
    router.router,
    release.release,
    pipeline.report,
    watch.watch,
    ui.ui,
):
    app.command()(command)
app.add_typer(warehouse.app)
app.add_typer(watch.tasks)
app.add_typer(analyst.app)
app.add_typer(environment.app)
app.add_typer(targets.app)


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
        from trace_assets.assets.storage_faults import explain
        from trace_assets.store.home import chosen_folder

        told = explain(error, chosen_folder())
        if told is None:
            raise
        _fail(told)


def _fail(error: TraceError) -> NoReturn:
    make_console(stderr=True).print(f"[bold red]trace:[/] {escape(str(error))}", soft_wrap=True)
    sys.exit(error.exit_code)
