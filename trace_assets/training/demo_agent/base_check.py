"""Is a freshly trained base model what the pipeline needs: able, and honestly lacking something?"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from trace_assets.errors import Unavailable
from trace_assets.records import Task
from trace_assets.rollouts.runner import Trial, run_rollouts
from trace_assets.settings import BaseModelSection
from trace_assets.stats.intervals import wilson
from trace_assets.targets.embedded.demonstrations import LACKING, TAUGHT, planted_truth
from trace_assets.targets.embedded.desk import case_of, resolutions
from trace_assets.targets.embedded.target import MAX_TURNS, EmbeddedTarget
from trace_assets.targets.protocol import Target

if TYPE_CHECKING:
    from trace_assets.targets.embedded.generator import DeskName


def desk_of(target: Target) -> DeskName:
    """Return which desk a target is; `a` where it is another target."""
    return target.desk if isinstance(target, EmbeddedTarget) else "a"


COMBINED_SHARE = 0.25
"""Of what the demonstrations of combined skills get right, the least that the base model must reach."""
BAND_SHARE = 0.8
"""Of what all demonstrations of a desk's kinds of tasks get right, likewise."""
BAND_ABOVE = 0.1
"""Over that, the most that it may reach."""
BRANCH = 0.15
"""Where two rules are opposite (desk `c`): by how much more often the base model must refuse what a rule
forbids than what it allows. A policy that does not tell the two apart can be taught neither."""


def wanted_of(target: Target, section: BaseModelSection) -> BaseModelSection:
    """Return the section with its bounds as wide as the desk asks for.

    Tasks that combine lacking skills pass less often, however well the agent has learned.

    Args:
        target: The embedded target.
        section: The settings; those of desk `a` are theirs.
    """
    desk = desk_of(target)
    waste = target.options.waste if isinstance(target, EmbeddedTarget) else None
    if desk == "a" and waste is None:
        return section
    truth = planted_truth(desk, waste=waste)
    bounds = {
        "pass_rate_low": min(section.pass_rate_low, BAND_SHARE * truth.p0),
        "pass_rate_high": max(section.pass_rate_high, truth.p0 + BAND_ABOVE),
    }
    if "pair" in truth.rates:
        bounds["lacking_rate"] = min(section.lacking_rate, COMBINED_SHARE * truth.rates["pair"])
    return section.model_copy(update=bounds)


@dataclass(frozen=True)
class BaseCheck:
    """Pass rates of a base model on validation tasks.

    Attributes:
        passed: Skill -> episodes that succeeded.
        played: Skill -> episodes.
        branches: Skill that a rule decides -> how much more often the agent refuses what the rule forbids
            than what it allows; empty where the desk asks for no branch.
    """

    passed: dict[str, int]
    played: dict[str, int]
    branches: dict[str, float] = field(default_factory=dict)

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
        for name, branch in sorted(self.branches.items()):
            if branch < BRANCH:
                found.append(f"skill '{name}' tells its cases apart by {branch:.2f}, wanted {BRANCH:.2f}")
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
    forbids = {task.task_id: resolutions(case_of(task))[0].transferred for task in _ruled(target, tasks)}
    right: dict[tuple[str, bool], list[bool]] = defaultdict(list)
    for trajectory in run_rollouts(target, trials, policy, max_turns=MAX_TURNS, concurrency=128):
        if trajectory.success is None:
            raise Unavailable(
                f"an episode of task '{trajectory.task_id}' broke while the base model was checked "
                f"({trajectory.error}); run again."
            )
        played[skill_of[trajectory.task_id]] += 1
        passed[skill_of[trajectory.task_id]] += trajectory.success
        if trajectory.task_id in forbids:
            case = skill_of[trajectory.task_id], forbids[trajectory.task_id]
            right[case].append(bool(trajectory.success))
    return BaseCheck(
        passed=dict(passed),
        played=dict(played),
        branches={
            skill: fmean(right[skill, True]) - (1 - fmean(right[skill, False]))
            for skill in sorted({skill for skill, _ in right})
            if right[skill, True] and right[skill, False]
        },
    )


def _ruled(target: Target, tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks of skills with opposite rules: none but on desk `c`."""
    opposite = LACKING["c"] if desk_of(target) == "c" else ()
    return [task for task in tasks if task.tags[0] in opposite]
