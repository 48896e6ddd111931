"""What workers are forked from sets its modules aside, and takes them down when it ends."""

from __future__ import annotations

import subprocess
import sys

SAY = (
    "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count())); "  # the last to be heard
    "import trace_assets.orchestration.loaded_ahead; print(gc.get_freeze_count() > 1000)"
)


def test_nothing_is_left_aside_at_the_end() -> None:
    """DuckDB's binding tells of each of its objects that is there when the process has ended."""
    done = subprocess.run((sys.executable, "-c", SAY), capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "0"] and "leaked" not in done.stderr
