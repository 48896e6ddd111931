"""What the process that workers are forked from loads, so that each of them finds it there.

Looking for garbage among modules while they are imported is a fifth of the time that this takes, and a worker
that looked among them later would have to copy the pages they lie on: so they are set aside for good.
"""

from __future__ import annotations

import atexit
import gc
import sys
from importlib import import_module

from trace_assets.system.processes import SELDOM, end_at_once, no_collections

with no_collections():
    definitions = import_module("trace_assets.definitions")
    definitions.load_modules()
gc.set_threshold(*SELDOM)
gc.freeze()
# What is frozen is not taken down when the process ends, and DuckDB's binding would tell of each such object.
atexit.register(gc.unfreeze)
if any("multiprocessing.forkserver" in word for word in sys.orig_argv):
    end_at_once(0)  # nobody asks how the process ended that workers were forked from
