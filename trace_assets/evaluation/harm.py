"""Which adapters are used, and what they do to tasks that they were not trained for.

Two questions, two rules, both answered on validation seeds and tasks only:

- *Accepted*: does the adapter do what it was trained for? On the held-out seeds of its own environment the
  lower end of its interval must lie above the base model's rate. Only accepted adapters are choices of a
  router.
- *Harm*: what does it do to the target's other skills? An adapter that breaks them and is shown to help its
  own stays a choice of the router, which sends it its own tasks alone, but it is flagged: it must not be
  applied to everything, and a router's mistakes cost more with it. One that breaks them and is not shown to
  help its own skills on the target's tasks (it learned its environment, not the target) is no choice of any
  router.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from trace_assets.evaluation.arms import skill_of
from trace_assets.records import NO_ADAPTER, Adapter, Evaluation, NoHarm, Task
from trace_assets.routing.examples import UNNEEDED_COST, RoutingExample, called_for
from trace_assets.routing.regret import outcomes_by_choice
from trace_assets.statistics.paired import Comparison, compare

MARGIN = 0.05
"""Pass-rate points that an adapter may lose on other skills and still be called harmless."""


class Acceptance(NamedTuple):
    """Whether an adapter may be a router's choice, and the figures that decided it."""

    name: str
    accepted: bool
    reason: str


def acceptance(adapter: Adapter) -> Acceptance:
    """Apply the rule of acceptance to one adapter."""
    before, after, low = adapter.validation_before, adapter.validation_after, adapter.validation_after_low
    accepted = low > before
    figures = (
        f"{before:.0%} -> {after:.0%} [{low:.0%}, {adapter.validation_after_high:.0%}] on "
        f"{adapter.validation_n} held-out episodes of its environment"
    )
    verdict = "improves" if accepted else "is not shown to improve"
    return Acceptance(adapter.name, accepted, f"{verdict}: {figures}")


def own_skills(
    examples: Iterable[RoutingExample], tasks: Iterable[Task], unneeded_cost: float = UNNEEDED_COST
) -> dict[str, frozenset[str]]:
    """Return the generator's tags that each adapter answers for, by the diagnosis of discovery tasks.

    A tag belongs to the choice that its discovery tasks call for on the whole (`called_for` on the mean of
    their shares). Tags enter this report alone; neither the examples nor any router has read them.

    Args:
        examples: Examples from discovery labels.
        tasks: The discovery tasks.
        unneeded_cost: As in the routing settings.
    """
    skill = {task.task_id: skill_of(task) for task in tasks}
    need: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for example in examples:
        if skill.get(example.task_id):
            for choice, share in example.need().items():
                need[skill[example.task_id]][choice] += share
    owned: dict[str, set[str]] = defaultdict(set)
    for tag, shares in need.items():
        owned[called_for(shares, unneeded_cost)].add(tag)
    return {name: frozenset(tags) for name, tags in owned.items() if name != NO_ADAPTER}


def no_harm(
    validation: Sequence[Evaluation],
    own: Mapping[str, Iterable[str]],
    adapters: Sequence[str],
    *,
    margin: float = MARGIN,
    resamples: int = 2000,
    seed: int = 0,
) -> list[NoHarm]:
    """Compare each adapter with the base model on validation tasks of its own skills and of the others.

    Args:
        validation: Evaluations on validation tasks, arms `base` and `adapter:<name>`.
        own: Adapter -> its own skills; see `own_skills`. An adapter that is not named owns none.
        adapters: The adapters to judge.
        margin: Points that may be lost on other skills.
        resamples: Bootstrap draws over tasks.
        seed: The same seed gives the same intervals.

    Returns:
        One row an adapter, in order.
    """
    outcomes = outcomes_by_choice(validation, [NO_ADAPTER, *adapters])
    skill = {row.task_id: row.skill for row in validation}

    def against_base(name: str, tasks: Sequence[str]) -> Comparison:
        counts = [[outcomes[choice].get(task, (0, 0)) for task in tasks] for choice in (name, NO_ADAPTER)]
        arm, base = (np.array(pairs, dtype=np.int64).reshape(-1, 2) for pairs in counts)
        return compare(arm[:, 0], arm[:, 1], base[:, 0], base[:, 1], resamples=resamples, seed=seed)

    rows = []
    for name in adapters:
        skills = frozenset(own.get(name, ()))
        mine = against_base(name, sorted(task for task in skill if skill[task] in skills))
        other = against_base(name, sorted(task for task in skill if skill[task] not in skills))
        verdict = _verdict(other, margin)
        rows.append(
            NoHarm(
                adapter=name,
                own_skills=tuple(sorted(skills)),
                own_n=mine.n_tasks,
                own_base=mine.base.value,
                own_adapter=mine.arm.value,
                own_delta=mine.delta.value,
                own_delta_low=mine.delta.low,
                own_delta_high=mine.delta.high,
                other_n=other.n_tasks,
                other_base=other.base.value,
                other_adapter=other.arm.value,
                other_delta=other.delta.value,
                other_delta_low=other.delta.low,
                other_delta_high=other.delta.high,
                verdict=verdict,
                reason=_reason(verdict, other, margin),
            )
        )
    return rows


def excluded(rows: Iterable[NoHarm]) -> list[str]:
    """Return the adapters that no router may choose: harmful to others, not shown to help their own skills.

    The lower end of the interval of the difference on their own validation tasks must lie above 0.
    """
    return sorted(
        row.adapter
        for row in rows
        if row.verdict == "harmful" and not (row.own_delta_low is not None and row.own_delta_low > 0)
    )


def _verdict(other: Comparison, margin: float) -> Literal["harmless", "unclear", "harmful"]:
    low, high = other.delta.low, other.delta.high
    if low is None or high is None:
        return "unclear"
    return "harmful" if high < 0 else "harmless" if low > -margin else "unclear"


def _reason(verdict: str, other: Comparison, margin: float) -> str:
    delta = other.delta
    if delta.value is None:
        return "no validation task of another skill was judged under both the base model and the adapter"
    if delta.low is None or delta.high is None:
        return f"{other.n_tasks} validation task of another skill is too few for an interval"
    figures = (
        f"{delta.value * 100:+.1f} points [{delta.low * 100:+.1f}, {delta.high * 100:+.1f}] "
        f"on {other.n_tasks} validation tasks of other skills"
    )
    words = {
        "harmless": f"loses less than {margin * 100:.0f} points",
        "harmful": "loses on other skills: apply it behind a router only",
        "unclear": f"neither a loss nor its absence beyond {margin * 100:.0f} points is shown",
    }
    return f"{words[verdict]}: {figures}"
