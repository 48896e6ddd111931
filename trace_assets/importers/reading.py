"""One file as it is read row by row: each task once, and what is wrong with a row in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trace_assets.importers.chat import first_words
from trace_assets.importers.problem import Problem, problem_kind, reason_of
from trace_assets.records import Task, Trajectory


class Reading:
    """One file of which nothing but conversations is known.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._known: set[str] = set()

    def told(
        self, trajectory: Trajectory, notice: str, position: str
    ) -> Iterator[Task | Trajectory | Problem]:
        """Yield a trajectory, before it its task where that is a new one, and why it is not judged."""
        if trajectory.task_id not in self._known:
            self._known.add(trajectory.task_id)
            yield Task(
                task_id=trajectory.task_id,
                target=trajectory.target,
                task_batch=trajectory.task_batch,
                instruction=first_words(trajectory.messages),
            )
        if notice:
            yield Problem(
                path=self._path, position=position, message=notice, severity="notice", kind="not_judged"
            )
        yield trajectory

    def left_out(self, error: Exception, position: str, what: str) -> Problem:
        """Return the sentence about a row that raised one of `UNUSABLE`.

        Args:
            error: What it raised.
            position: Where it is.
            what: What it is called in a sentence, such as `this line`.
        """
        message = f"{reason_of(error)}; {what} is left out"
        return Problem(path=self._path, position=position, message=message, kind=problem_kind(error))
