"""How many rollouts a training run spends, and on which task each group is spent."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from trace_assets.errors import InputError
from trace_assets.records import Task, TrainingPoint
from trace_assets.settings import Training

OnPoint = Callable[[TrainingPoint], None]
"""Told of each iteration's point as it is made; not told again of those before a resume."""


@dataclass(frozen=True)
class Job:
    """What a training is given, whatever is taught: the model, by which settings, how much, and where to.

    Attributes:
        base_dir: Hugging Face folder, or hub name, of the base model.
        base_id: The base model's content hash, for the record.
        section: The training settings.
        folder: Where the PEFT folder shall be; replaced in one step at the end.
        rollout_budget: Training episodes to spend in place of `section.iterations`.
        environment_id: What stands in the record for what is played; None takes the target's version.
        path: What the record shall say of where the folder is; None writes the folder's name.
        on_point: Told of each iteration.
    """

    base_dir: Path | str
    base_id: str
    section: Training
    folder: Path
    rollout_budget: int | None = None
    environment_id: str | None = None
    path: str | None = None
    on_point: OnPoint | None = None

    @property
    def batch(self) -> int:
        """Training episodes of an iteration."""
        return self.section.tasks_per_iteration * self.section.group_size

    @property
    def rollouts(self) -> int:
        """Training episodes in all."""
        return self.section.iterations * self.batch if self.rollout_budget is None else self.rollout_budget


@dataclass(frozen=True)
class Plan:
    """A run's budget.

    Attributes:
        iterations: Optimizer steps.
        schedule: The task of every group, iteration after iteration; iterations x tasks an iteration long.
        group_size: Rollouts a group.
        tasks_per_iteration: Groups an iteration.
        pool: All tasks that may be trained on, to draw from in the place of dead groups.
    """

    iterations: int
    schedule: tuple[Task, ...]
    group_size: int
    tasks_per_iteration: int
    pool: tuple[Task, ...] = ()

    @property
    def batch(self) -> int:
        """Training episodes of an iteration, before dead groups are drawn anew."""
        return self.tasks_per_iteration * self.group_size

    @property
    def rollouts(self) -> int:
        """Training episodes in all."""
        return len(self.schedule) * self.group_size


def make_plan(tasks: Sequence[Task], section: Training, rollout_budget: int | None = None) -> Plan:
    """Lay out a run: every task is used about equally often, in an order that the seed decides.

    Args:
        tasks: What may be trained on.
        section: Iterations, groups an iteration, rollouts a group, seed.
        rollout_budget: Training episodes to spend in place of `section.iterations`; it must be a whole number
            of iterations, so that two arms with the same budget spend the same.

    Raises:
        InputError: There is no task, the budget is not a whole number of iterations, or the micro-batch does
            not divide an iteration.
    """
    if not tasks:
        raise InputError("the target has no discovery tasks to train on; ask for more in [targets].")
    batch = section.tasks_per_iteration * section.group_size
    if section.micro_batch and batch % section.micro_batch:
        raise InputError(
            f"training.micro_batch = {section.micro_batch} does not divide the {batch} episodes of an "
            f"iteration ({section.tasks_per_iteration} tasks x {section.group_size}); choose a divisor."
        )
    iterations = section.iterations
    if rollout_budget is not None:
        iterations, rest = divmod(rollout_budget, batch)
        if rest or iterations < 1:
            raise InputError(
                f"a budget of {rollout_budget} rollouts is not a whole number of iterations of {batch}; "
                "change training.tasks_per_iteration or training.group_size."
            )
    order = random.Random(section.seed)
    schedule: list[Task] = []
    while len(schedule) < iterations * section.tasks_per_iteration:
        schedule += order.sample(list(tasks), len(tasks))
    return Plan(
        iterations=iterations,
        schedule=tuple(schedule[: iterations * section.tasks_per_iteration]),
        group_size=section.group_size,
        tasks_per_iteration=section.tasks_per_iteration,
        pool=tuple(tasks),
    )
