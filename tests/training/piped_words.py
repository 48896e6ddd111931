"""A training process as a test asks for it; run as a program by the interpreter that the test names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from trace_assets.assets.training_process import OnPoint, answer
from trace_assets.errors import InputError
from trace_assets.records import TrainingPoint

sys.path.insert(0, str(Path(__file__).parent))


def work(request: dict[str, Any], on_point: OnPoint) -> dict[str, Any] | None:
    if request["name"] == "refused":
        raise InputError("the target has no tasks; ask for more.")
    if request["name"] == "dies":
        os._exit(7)
    # Something that a training starts: it knows nothing of pipes and of no parent.
    child = subprocess.Popen(["sleep", "600"])
    Path(request["pids"]).write_text(f"{os.getpid()} {child.pid}")
    if request["name"] == "hangs":
        child.wait()

    def tell(point: TrainingPoint) -> None:
        on_point(point)
        if point.iteration == request.get("waits_at"):
            child.wait()  # goes no further before the step has acted on this point

    import word_target

    from trace_assets.training.grpo import train_adapter

    train_adapter(
        name="words",
        kind="capability",
        capability_id="words",
        environment_id=None,
        target=word_target.WordTarget(),
        base_dir=Path(request["base"]),
        base_id="base",
        section=word_target.SECTION,
        folder=Path(request["folder"]),
        on_point=tell,
    )
    return {"episodes": 480, "recomputed": 9, "unconfirmed": 0}


if __name__ == "__main__":
    sys.exit(answer(work))
