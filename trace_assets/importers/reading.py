"""One file as it is read row by row: each task once, and what is wrong with a row in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trace_assets.importers.chat import first_words
from trace_assets.importers.problem import Problem, problem_kind, reason_of
from trace_assets.importers.task_facts import TaskFacts
from trace_assets.records import Task, Trajectory

_UNTOLD = TaskFacts()


class Reading:
    """One file of which nothing but conversations is known.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._known: set[str] = set()

    def told(
        self, trajectory: Trajectory, notice: str, position: str, facts: TaskFacts = _UNTOLD
    ) -> Iterator[Task | Trajectory | Problem]:
        """Yield a trajectory, before it its task where that is a new one, and why it is not judged.

        Args:
            trajectory: What a row holds.
            notice: Why it is not judged; empty when it is.
            position: Where it is.
            facts: What the row tells of the task.
        """
        if trajectory.task_id not in self._known:
            self._known.add(trajectory.task_id)
            yield Task(
                task_id=trajectory.task_id,
                target=trajectory.target,
                task_batch=trajectory.task_batch,
                instruction=facts.instruction or first_words(trajectory.messages),
                has_expected=facts.has_expected,
                expected_actions=facts.expected_actions,
                expected_outputs=facts.expected_outputs,
                domain_policy=facts.domain_policy,
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
