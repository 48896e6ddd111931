"""Is a freshly trained base model what the pipeline needs: able, and honestly lacking something?"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from trace_assets.errors import Unavailable
from trace_assets.rollout.runner import Trial, run_rollouts
from trace_assets.settings import BaseModelSection
from trace_assets.statistics.wilson import wilson
from trace_assets.targets.embedded.demonstrations import TAUGHT
from trace_assets.targets.embedded.episode import MAX_TURNS
from trace_assets.targets.protocol import Target


@dataclass(frozen=True)
class BaseCheck:
    """Pass rates of a base model on validation tasks.

    Attributes:
        passed: Skill -> episodes that succeeded.
        played: Skill -> episodes.
    """

    passed: dict[str, int]
    played: dict[str, int]

    @property
    def n(self) -> int:
        """Episodes played."""
        return sum(self.played.values())

    @property
    def rate(self) -> float:
        """Share of the episodes that succeeded."""
        return sum(self.passed.values()) / self.n

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of `rate`."""
        return wilson(sum(self.passed.values()), self.n)

    def skill(self, name: str) -> float:
        """Return one skill's pass rate."""
        return self.passed.get(name, 0) / self.played[name]

    def problems(self, section: BaseModelSection) -> list[str]:
        """Return what is not as the section wants it, in words; empty when all is well."""
        low, high = section.pass_rate_low, section.pass_rate_high
        found = []
        if not low <= self.rate <= high:
            found.append(f"pass rate {self.rate:.2f} of {self.n} episodes, wanted {low:.2f} to {high:.2f}")
        for name in sorted(self.played):
            floor = section.taught_rate if name in TAUGHT else section.lacking_rate
            if self.skill(name) < floor:
                rate, n = self.skill(name), self.played[name]
                found.append(f"skill '{name}' {rate:.2f} of {n}, wanted at least {floor:.2f}")
        return found


def check_base(folder: Path, target: Target, section: BaseModelSection) -> BaseCheck:
    """Roll a model out on the target's validation tasks at temperature 1.

    Plays at least `section.check_tasks` episodes: every task once, then every task again.

    Args:
        folder: Model folder.
        target: Where its episodes come from.
        section: How many.

    Raises:
        Unavailable: An episode broke; nothing can be said about the model then.
    """
    from trace_assets.policies.transformers_engine import TransformersPolicy

    tasks = target.tasks("validation")
    rounds = math.ceil(section.check_tasks / len(tasks))
    trials = [Trial(task, trial=trial) for trial in range(rounds) for task in tasks][: section.check_tasks]
    skill_of = {task.task_id: task.tags[0] for task in tasks}
    policy = TransformersPolicy(folder, temperature=1.0)
    played: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    for trajectory in run_rollouts(target, trials, policy, max_turns=MAX_TURNS, concurrency=128):
        if trajectory.success is None:
            raise Unavailable(
                f"an episode of task '{trajectory.task_id}' broke while the base model was checked "
                f"({trajectory.error}); run again."
            )
        played[skill_of[trajectory.task_id]] += 1
        passed[skill_of[trajectory.task_id]] += trajectory.success
    return BaseCheck(passed=dict(passed), played=dict(played))
