"""What workers are forked from sets its modules aside, and takes none of them down when it ends."""

from __future__ import annotations

import subprocess
import sys

SAY = (
    "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count())); "  # the last to be heard
    "import trace_assets.orchestration.loaded_ahead; print(gc.get_freeze_count() > 1000)"
)
SERVER = """
import atexit, os
class Kept:
    def __del__(self):
        os.write(1, b"taken down")
kept = Kept()
kept.itself = kept
import trace_assets.orchestration.loaded_ahead
"""


def test_nothing_is_left_aside_at_the_end() -> None:
    """DuckDB's binding tells of each of its objects that is there when the process has ended."""
    done = subprocess.run((sys.executable, "-c", SAY), capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "0"] and "leaked" not in done.stderr


def test_the_process_that_workers_are_forked_from_ends_at_once() -> None:
    """It is told by how Python starts it; any other that loads the module is taken down."""
    for first, said in (("import multiprocessing.forkserver", ""), ("import multiprocessing", "taken down")):
        call = (sys.executable, "-c", first + SERVER)
        done = subprocess.run(call, capture_output=True, text=True, check=True)
        assert (done.stdout, "leaked" in done.stderr) == (said, False)
