"""The learning curve on disk: one JSON line an iteration, so that a killed run keeps what it had."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from trace_assets.records import TrainingPoint
from trace_assets.store.durable import make_folder
from trace_assets.store.home import replacing_file
from trace_assets.store.lines import append_lines, read_lines, sealed


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
                partial.write_bytes(b"".join(sealed(point.model_dump_json()) for point in self.points))

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
        make_folder(self.path.parent)
        append_lines(self.path, [point.model_dump_json()])


def read_curve(path: Path) -> list[TrainingPoint]:
    """Read a curve file; a line that was altered or torn by a crash, and what follows it, is left out.

    Args:
        path: The JSON-lines file; none gives no points.
    """
    points: list[TrainingPoint] = []
    lines = read_lines(path)
    for number, text in lines.whole:
        if lines.altered and number > lines.altered[0]:
            break
        try:
            points.append(TrainingPoint.model_validate_json(text))
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
