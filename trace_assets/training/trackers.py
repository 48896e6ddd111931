"""Experiment trackers that a training reports to: TRL's own, told where to go and checked to be there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from trace_assets.errors import Unavailable
from trace_assets.settings import Training

FOLDER = "runs"
"""In the working folder, which is the study's: where TensorBoard looks by habit."""
TENSORBOARD = "TENSORBOARD_LOGGING_DIR"


def require_trackers(section: Training) -> None:
    """Make sure that the package of every tracker is there, before anything is played.

    Raises:
        Unavailable: One is not installed.
    """
    missing = [name for name in section.report_to if find_spec(name) is None]
    if missing:
        raise Unavailable(
            f"training.report_to names {', '.join(missing)}, not installed beside this interpreter: run "
            f"`pip install {' '.join(missing)}`, or leave it out of training.report_to."
        )


@contextmanager
def tracked(section: Training, name: str) -> Iterator[None]:
    """Say for the body where what is reported goes, where the tracker's own variable does not.

    TensorBoard's files would otherwise lie in the trainer's folder, which goes when the training is done.
    The others have variables of their own (`WANDB_PROJECT`, `MLFLOW_TRACKING_URI`, `TRACKIO_PROJECT`).

    Args:
        section: The training settings.
        name: Of the adapter.
    """
    if "tensorboard" not in section.report_to or TENSORBOARD in os.environ:
        yield
        return
    os.environ[TENSORBOARD] = str(Path(FOLDER, name).absolute())
    try:
        yield
    finally:
        del os.environ[TENSORBOARD]
