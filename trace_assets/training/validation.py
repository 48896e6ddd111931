"""How often the policy succeeds on held-out tasks, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trace_assets.errors import Unavailable
from trace_assets.records import Task
from trace_assets.statistics.wilson import wilson
from trace_assets.training.episodes import Player, is_broken


@dataclass(frozen=True)
class Rate:
    """A success rate.

    Attributes:
        successes: Episodes that succeeded.
        n: Episodes that were judged; broken ones are in neither figure.
        reward: Mean reward over the judged ones.
    """

    successes: int
    n: int
    reward: float

    @property
    def rate(self) -> float:
        """Successes / n."""
        return self.successes / self.n

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval over episodes."""
        return wilson(self.successes, self.n, 0.95)


def validate(player: Player, tasks: Sequence[Task], batch: str) -> Rate:
    """Play held-out tasks at the policy's own temperature, each once: then Wilson's interval is theirs.

    Args:
        player: Plays the episodes; the policy holds the weights to be judged.
        tasks: Held-out tasks.
        batch: Name of the batch; the same name gives the same seeds, for comparisons.

    Raises:
        Unavailable: So many episodes broke that there is nothing to report.
    """
    judged = [r.trajectory for r in player.play(tasks, batch) if not is_broken(r.trajectory)]
    if not judged:
        raise Unavailable(f"no episode of {batch} could be judged; mend the environment and run again.")
    return Rate(
        successes=sum(bool(trajectory.success) for trajectory in judged),
        n=len(judged),
        reward=sum(trajectory.reward or 0.0 for trajectory in judged) / len(judged),
    )


def split_held_out(tasks: Sequence[Task], compare: int, report: int) -> tuple[Sequence[Task], Sequence[Task]]:
    """Divide held-out tasks between choosing a checkpoint and saying how good it is.

    Args:
        tasks: All of them.
        compare: How many checkpoints are compared on, at most.
        report: How many are reported on, at most.

    Returns:
        Tasks to compare on, tasks to report on. They share none when there are enough for both; else the
        figures are over all tasks, and only the episodes are fresh.

    >>> [len(part) for part in split_held_out(list(range(512)), 64, 256)]
    [64, 256]
    >>> [len(part) for part in split_held_out(list(range(200)), 64, 256)]
    [64, 200]
    """
    rest = tasks[compare:]
    return tasks[:compare], rest[:report] if len(rest) >= report else tasks[:report]
