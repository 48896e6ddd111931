"""The learning curve on disk: one JSON line an iteration, so that a killed run keeps what it had."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from trace_assets.records import TrainingPoint
from trace_assets.store.home import replacing_file


class Curve:
    """An append-only file of training points, in order of iteration, each iteration once.

    Args:
        path: The JSON-lines file; made on the first point.
        upto: Keep only the points up to this iteration: those after the checkpoint that training resumes
            from will be made again. None keeps all.
        writes: Whether the file is this process's to write; one of several only keeps the points in mind.
    """

    def __init__(self, path: Path, upto: int | None = None, writes: bool = True) -> None:
        self.path, self._writes = path, writes
        self.points = [point for point in read_curve(path) if upto is None or point.iteration <= upto]
        if writes and path.exists():
            with replacing_file(path) as partial:
                partial.write_text("".join(_line(point) for point in self.points), encoding="utf-8")

    def append(self, point: TrainingPoint) -> None:
        """Add the next point and make sure that it survives a crash.

        Raises:
            ValueError: The iteration is not later than the last one.
        """
        if self.points and point.iteration <= self.points[-1].iteration:
            raise ValueError(f"iteration {point.iteration} is not later than {self.points[-1].iteration}")
        self.points.append(point)
        if not self._writes:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_line(point))
            file.flush()
            os.fsync(file.fileno())


def read_curve(path: Path) -> list[TrainingPoint]:
    """Read a curve file; a line torn by a crash, and what follows it, is left out.

    Args:
        path: The JSON-lines file; none gives no points.
    """
    points: list[TrainingPoint] = []
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                points.append(TrainingPoint.model_validate_json(line))
            except ValidationError:
                break
    return points


def sandbox_shares(points: Sequence[TrainingPoint]) -> tuple[float | None, float | None]:
    """Return the share of an adapter's training time that went into calls into the sandbox.

    Args:
        points: Its curve.

    Returns:
        Wall time in calls, waiting included, and CPU time of the training process in calls, both over the
        wall time of all iterations; None where no sandbox was used.
    """
    seconds = sum(point.seconds for point in points)
    if not seconds or any(point.sandbox_seconds is None for point in points):
        return None, None
    wall = sum(point.sandbox_seconds or 0.0 for point in points)
    cpu = sum(point.sandbox_cpu_seconds or 0.0 for point in points)
    return wall / seconds, cpu / seconds


def _line(point: TrainingPoint) -> str:
    return point.model_dump_json() + "\n"
