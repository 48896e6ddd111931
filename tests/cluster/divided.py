"""An item of 480 episodes on the nodes of a cluster, as a command: `python divided.py FOLDER SECONDS`.

It gets a folder for its journals and the seconds of a turn. It prints in how many seconds all was played, and
whether that is what one machine plays.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path

from calls import open_waiting, play_divided

from trace_assets.settings.operation import Cluster

if __name__ == "__main__":
    # Here, for doctests are looked for in this module also where Ray is not installed.
    from trace_assets.orchestration.cluster.ray_pool import RayPool

    folder, seconds = Path(sys.argv[1]), float(sys.argv[2])
    with RayPool(Cluster(engine="ray")) as pool:
        pool.submit(play_divided, folder / "first", None, partial(open_waiting, 0.1), 2).result(600)
        print("begin", flush=True)  # all workers have begun, and imported what they need
        began = time.monotonic()
        call = pool.submit(play_divided, folder / "journal", None, partial(open_waiting, seconds), 12)
        played = call.result(600)
        print(f"{time.monotonic() - began:.2f} s", flush=True)
    alone = play_divided(folder / "alone", None, partial(open_waiting, 0.0), 12)
    ours, theirs = ([one.model_copy(update={"seconds": None}) for one in some] for some in (played, alone))
    print("equal" if ours == theirs else "not equal")
