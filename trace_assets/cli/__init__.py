"""The command `trace`."""

from trace_assets.system import processes  # isort: skip  # first, so that it is the last to be called

from trace_assets.cli.main import main

__all__ = ["command", "main"]


def command() -> None:
    """Run `main` as all that this process does."""
    try:
        main()
    except SystemExit as end:
        processes.end_at_once(end.code)
        raise
