"""The command `trace`."""

from trace_assets.cli.main import main

__all__ = ["main"]
