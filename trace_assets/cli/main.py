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

from trace_assets.cli import data, diagnosis, doctor, environment, pipeline, serving, sql, targets, ui
from trace_assets.cli.options import console as make_console
from trace_assets.cli.options import guard_streams
from trace_assets.errors import TraceError, plain_warnings

app = typer.Typer(
    name="trace",
    help="Find what an agent cannot do, teach it, and route to what was taught.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

for command in (
    pipeline.demo,
    doctor.doctor,
    data.ingest,
    data.export,
    pipeline.diagnose,
    diagnosis.compare,
    diagnosis.plan,
    pipeline.sync,
    sql.sql,
    environment.contract,
    environment.audit,
    serving.route,
    serving.serve,
    serving.router,
    serving.release,
    pipeline.report,
    data.watch,
    ui.ui,
):
    app.command()(command)
app.add_typer(sql.app)
app.add_typer(data.tasks)
app.add_typer(diagnosis.app)
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
        from trace_assets.orchestration.asset_files import explain
        from trace_assets.store.files import chosen_folder

        told = explain(error, chosen_folder())
        if told is None:
            raise
        _fail(told)


def _fail(error: TraceError) -> NoReturn:
    make_console(stderr=True).print(f"[bold red]trace:[/] {escape(str(error))}", soft_wrap=True)
    sys.exit(error.exit_code)
