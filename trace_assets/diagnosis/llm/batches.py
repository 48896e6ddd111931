"""Which episodes one discovery pass reads: some failures, and successes of the same or similar tasks."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from trace_assets.records import Trajectory
from trace_assets.settings import Discovery

_WORD = re.compile(r"[^\W\d_]{3,}")


@dataclass(frozen=True)
class Batch:
    """What one pass is shown.

    Attributes:
        number: The pass, from 1.
        failures: Failed trajectories, of as many different tasks as there are.
        successes: Passed ones: other trials of the same tasks first, then those of the most similar tasks.
    """

    number: int
    failures: tuple[Trajectory, ...]
    successes: tuple[Trajectory, ...]


def draw_batches(
    trajectories: Sequence[Trajectory], section: Discovery, explained: Collection[str] = ()
) -> list[Batch]:
    """Draw the batches of all passes.

    Each pass takes failures in an order of its own, tasks taking turns. Runs that no earlier pass has read go
    first, and none is read again while such are left; then passes are resamples of the same failures. Of
    successes, another trial of a failure's own task goes before one that is new. Equal inputs in any order
    give equal batches.

    Args:
        trajectories: Of one target; those without a verdict are left out.
        section: Passes and sizes.
        explained: Failures that come after all others that no pass has read.

    Returns:
        None at all without failures or without successes: there is nothing to contrast.
    """
    listed = sorted(trajectories, key=lambda one: one.trajectory_id)
    failed = [one for one in listed if one.success is False]
    passed = [one for one in listed if one.success is True]
    if not failed or not passed:
        return []
    likeness = Likeness(listed)
    seen: set[str] = set()
    batches = []
    for number in range(1, section.passes + 1):
        rng = random.Random(f"{section.seed}:{number}")
        turns = _turns(failed, rng)
        failures = sorted(turns, key=lambda one: (one.trajectory_id in seen, one.trajectory_id in explained))[
            : section.failures
        ]
        successes = partners(failures, passed, likeness, section.successes, rng, seen)
        seen |= {one.trajectory_id for one in (*failures, *successes)}
        batches.append(Batch(number, tuple(failures), tuple(successes)))
    return batches


def _turns(trajectories: Sequence[Trajectory], rng: random.Random) -> list[Trajectory]:
    """Shuffle, and let tasks take turns: a task with many trials is not read more than others."""
    shuffled = rng.sample(list(trajectories), len(trajectories))
    turn: Counter[str] = Counter()
    placed = []
    for place, one in enumerate(shuffled):
        placed.append((turn[one.task_id], place, one))
        turn[one.task_id] += 1
    return [one for _, _, one in sorted(placed, key=lambda row: row[:2])]


def partners(
    failures: Sequence[Trajectory],
    passed: Sequence[Trajectory],
    likeness: Likeness,
    most: int,
    rng: random.Random,
    seen: Collection[str] = (),
) -> list[Trajectory]:
    """Choose successes that fit the failures, each failure in turn getting the best one that is left."""
    left = rng.sample(list(passed), len(passed))
    chosen: list[Trajectory] = []
    for place in range(min(most, len(left))):
        failure = failures[place % len(failures)]
        best = max(
            left,
            key=lambda one: (
                one.task_id == failure.task_id,
                one.trajectory_id not in seen,
                likeness(one, failure),
            ),
        )
        left.remove(best)
        chosen.append(best)
    return chosen


class Likeness:
    """How alike two trajectories' tasks are: the cosine of the rare words in what the user opens with.

    Args:
        trajectories: Among which a word is rare or common.
    """

    def __init__(self, trajectories: Sequence[Trajectory]) -> None:
        self._words = {
            one.trajectory_id: Counter(_WORD.findall(opening(one).lower())) for one in trajectories
        }
        seen = Counter(word for words in self._words.values() for word in words)
        n = max(1, len(self._words))
        self._weight = {word: math.log((n + 1) / (count + 0.5)) for word, count in seen.items()}
        self._length = {name: math.sqrt(self._dot(words, words)) for name, words in self._words.items()}

    def __call__(self, one: Trajectory, other: Trajectory) -> float:
        """Return a number from 0 to 1."""
        length = self._length[one.trajectory_id] * self._length[other.trajectory_id]
        dot = self._dot(self._words[one.trajectory_id], self._words[other.trajectory_id])
        return dot / length if length else 0.0

    def _dot(self, one: Counter[str], other: Counter[str]) -> float:
        return sum(
            count * other[word] * self._weight[word] ** 2 for word, count in one.items() if word in other
        )


def opening(trajectory: Trajectory) -> str:
    """Return what the user said before the agent's first message."""
    said: list[str] = []
    for message in trajectory.messages:
        if message.role == "assistant" and said:
            break
        if message.role == "user" and message.content:
            said.append(message.content)
    return "\n".join(said)
