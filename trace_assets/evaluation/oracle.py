"""The oracle: for each skill, the variant that was best on validation tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from trace_assets.evaluation.arms import BASE, skill_of
from trace_assets.records import NO_ADAPTER, Evaluation, Task

Rates = dict[str, dict[str, float]]
"""Skill -> choice -> mean over tasks of the pass rate."""


def choice_of(arm: str) -> str | None:
    """Return the choice that a single-variant arm stands for, None for arms that a router may not choose.

    >>> choice_of("base"), choice_of("adapter:cancel"), choice_of("mixed_grpo")
    ('none', 'cancel', None)
    """
    if arm == BASE:
        return NO_ADAPTER
    name = arm.removeprefix("adapter:")
    return name if name != arm else None


def rates_by_skill(validation: Iterable[Evaluation], *, pooled: bool = False) -> Rates:
    """Return the pass rate of every choice, for each skill; unjudged trials do not count.

    Args:
        validation: Evaluations on validation tasks. Arms other than `base` and `adapter:<name>` are ignored.
        pooled: Put all tasks under one skill `all`.
    """
    trials: dict[tuple[str, str, str], list[bool]] = defaultdict(list)
    for row in validation:
        choice = choice_of(row.arm)
        if choice is not None and row.success is not None:
            trials["all" if pooled else row.skill, choice, row.task_id].append(row.success)
    tasks: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (skill, choice, _), passed in trials.items():
        tasks[skill][choice].append(sum(passed) / len(passed))
    return {
        skill: {choice: sum(rates) / len(rates) for choice, rates in sorted(choices.items())}
        for skill, choices in tasks.items()
    }


def _best(rates: dict[str, float]) -> str:
    # The base model wins a tie: an adapter that gains nothing is not applied.
    return min(rates, key=lambda choice: (-rates[choice], choice != NO_ADAPTER, choice))


def oracle_choice(validation: Iterable[Evaluation], tasks: Iterable[Task]) -> dict[str, str]:
    """Return for each task the choice with the best validation pass rate on the task's own skill.

    The oracle knows the generator's tag of a task, which no router sees, and the pass rates on validation
    tasks, never on the tasks it chooses for. It is the best that choosing by skill can do up to the noise of
    validation; a clairvoyant that picks by each test task's own outcomes would only measure luck. Tasks of
    a skill that validation does not hold go to `none`; without any tags all tasks are one skill, and the
    oracle is the best single choice.

    Args:
        validation: Evaluations on validation tasks, arms `base` and `adapter:<name>`.
        tasks: Tasks to choose for, such as those of the test split.
    """
    best = {skill: _best(rates) for skill, rates in rates_by_skill(validation).items()}
    return {task.task_id: best.get(skill_of(task), NO_ADAPTER) for task in tasks}


def best_single_choice(validation: Iterable[Evaluation]) -> str:
    """Return the one choice with the best validation pass rate over all tasks; `none` without evaluations."""
    rates = rates_by_skill(validation, pooled=True).get("all")
    return _best(rates) if rates else NO_ADAPTER
