"""A process that takes itself for one of another machine, whose locks are not seen from here.

`python other_machine.py HOME WHAT [BOOT [HOST [SECONDS AGO]]]`. WHAT is `come`: announce, or print
why that was refused, and end; or `stay`: announce, then do what is said, `go on` with what it was
at, or come anew.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from trace_assets.errors import TraceError
from trace_assets.store import Home, presence
from trace_assets.store.leases import confirm_all
from trace_assets.store.presence import announce
from trace_assets.system.machine import Machine, this_machine

if __name__ == "__main__":
    folder, what = sys.argv[1:3]
    boot, host, ago = (*sys.argv[3:], *["another-boot", "node-b", "0"][len(sys.argv) - 3 :])
    here = this_machine()
    presence.this_machine = lambda: Machine(host, boot, here.installation)
    presence.BEAT_SECONDS = 0.1
    presence.time.time = lambda now=time.time: now() - float(ago)
    if boot != here.boot:  # as on a shared folder that keeps locks to each machine
        presence.fcntl.flock = lambda *_: None
        presence.is_held = lambda path: False
    home = Home.open(Path(folder))
    try:
        print(announce(home), flush=True)
    except TraceError as error:
        print(f"refused: {error}", flush=True)
        sys.exit(error.exit_code)
    for line in sys.stdin if what == "stay" else ():
        try:
            confirm_all(home.path) if line == "go on\n" else print(announce(home), flush=True)
        except TraceError as error:
            print(f"refused: {error}", flush=True)
