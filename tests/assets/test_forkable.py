"""Workers are forked from a process that has imported the definitions: no thread of polars may live in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

NAMES = """
import os, trace_assets.definitions
names = [open(f"/proc/self/task/{one}/comm").read().strip() for one in os.listdir("/proc/self/task")]
print("\\n".join(names))
"""


@pytest.mark.ci
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="tells threads by Linux's /proc")
def test_importing_the_definitions_starts_no_polars_threads() -> None:
    """A forked child has the locks of that pool and no thread: its first lazy read would wait for ever."""
    said = subprocess.run([sys.executable, "-c", NAMES], capture_output=True, text=True, check=True)
    threads = {name.partition("-")[0] for name in said.stdout.split() if "ooc" not in name}
    assert not threads & {"tokio", "polars"}, "something runs polars when it is imported"
