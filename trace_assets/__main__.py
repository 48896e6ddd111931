"""`python -m trace_assets` is the command `trace`."""

from trace_assets.cli import command

command()
