"""A process that ends at once: the system takes back in one go what Python would take down object by object.

With Dagster, polars and a study loaded that is some 0.8 CPU seconds, a third of a command that finds nothing
to do. All that a process owes others is done before: its threads have ended, what was registered with
`atexit` has run, its streams are flushed.
"""

from __future__ import annotations

import atexit
import os
import sys

_owed: tuple[int, int] | None = None
"""The process that is to end so, and its exit code: a child that was forked meanwhile ends as it likes."""


def end_at_once(code: object) -> None:
    """Have this process end without being taken down, as soon as it ends.

    Args:
        code: What its `SystemExit` holds.
    """
    global _owed
    _owed = os.getpid(), code & 0xFF if isinstance(code, int) else int(code is not None)


def _end() -> None:
    if _owed is None or _owed[0] != os.getpid():
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):
        return  # closed or nobody reads: Python says so
    os._exit(_owed[1])


atexit.register(_end)  # whoever imports this first has it called last
