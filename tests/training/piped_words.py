"""A training process as a test asks for it; run as a program by the interpreter that the test names."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from trace_assets.errors import InputError
from trace_assets.orchestration.remote.process import answer
from trace_assets.records import TrainingPoint
from trace_assets.settings import Training
from trace_assets.training.distributed import launch_command
from trace_assets.training.plan import OnPoint

sys.path.insert(0, str(Path(__file__).parent))


def work(request: dict[str, Any], on_point: OnPoint) -> dict[str, Any] | None:
    if request["name"] == "refused":
        raise InputError("the target has no tasks; ask for more.")
    if request["name"] == "dies":
        os._exit(7)
    # Something that a training starts: it knows nothing of pipes and of no parent.
    child = subprocess.Popen(["sleep", "600"])
    with Path(request["pids"]).open("a") as pids:
        pids.write(f"{os.getpid()} {child.pid} ")
    if os.environ.get("RANK") == request.get("killed_rank", "none"):
        os.kill(os.getpid(), signal.SIGKILL)
    if request["name"] == "hangs":
        child.wait()
    if request["name"] == "counts":
        return {"world": os.environ["WORLD_SIZE"], "rank": os.environ["RANK"]}

    def tell(point: TrainingPoint) -> None:
        on_point(point)
        if point.iteration == request.get("waits_at"):
            child.wait()  # goes no further before the step has acted on this point

    import word_target

    word_target.train(Path(request["base"]), Path(request["folder"]), on_point=tell)
    return {"episodes": 480, "recomputed": 9, "unconfirmed": 0}


def several(request: dict[str, Any]) -> list[str] | None:
    count = request.get("processes", 1)
    return launch_command(Training(processes=count), sys.executable, "piped_words") if count > 1 else None


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)  # where those find this file that it starts
    sys.exit(answer(work, several))
