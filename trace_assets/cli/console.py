"""Where commands print: as wide as the terminal, and wide enough for tables when there is none."""

from __future__ import annotations

import sys

from rich.console import Console

WIDTH_WITHOUT_TERMINAL = 130


def console(*, stderr: bool = False) -> Console:
    """Return a console for standard output or standard error."""
    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, highlight=False, width=None if terminal else WIDTH_WITHOUT_TERMINAL)
