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
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trace_assets.evaluation.arms import skill_of
from trace_assets.records import NO_ADAPTER, Adapter, ArmSummary, Evaluation, NoHarm, Task
from trace_assets.routing.router import UNNEEDED_COST, RoutingExample, called_for
from trace_assets.routing.scores import outcomes_by_choice
from trace_assets.settings import EvaluationSection
from trace_assets.stats.paired import Comparison, compare, mcnemar, pass_hat_k, pass_rate

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


# What the arms achieved, overall and per skill, each against the base arm on the same tasks.


BASE_ARM = "base"
ALL = "all"
"""Stands for all skills together."""

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class _Counts:
    """One arm's trials per task, tasks in the order of the group."""

    passed: Ints
    judged: Ints
    faults: int

    @property
    def majority(self) -> NDArray[np.bool_]:
        return self.passed * 2 > self.judged


def summarise(evaluations: Sequence[Evaluation], section: EvaluationSection) -> list[ArmSummary]:
    """Summarise every arm over all tasks and over each skill.

    Every task weighs the same. A trial that a fault kept from being judged is counted as a fault and in no
    rate; a task without any judged trial in an arm takes no part in that arm's figures. Differences are
    over tasks judged in both arms, by a paired bootstrap over tasks. McNemar's test takes a task as passed
    when more than half of its judged trials passed, so a tie is not a pass in either arm. pass^k is over
    tasks with all of `section.trials` trials judged.

    Args:
        evaluations: Trials of all arms, in any order; the arm `base` among them for differences.
        section: Trials a task, resamples, seed.

    Returns:
        One row a skill and arm: `all` first, then skills by name; `base` first, then arms by name. Figures
        without a basis are None.
    """
    skills = sorted({row.skill for row in evaluations if row.skill})
    groups = [(ALL, list(evaluations))]
    groups += [(skill, [row for row in evaluations if row.skill == skill]) for skill in skills]
    return [summary for skill, rows in groups for summary in _group(skill, rows, section)]


def _group(skill: str, rows: list[Evaluation], section: EvaluationSection) -> Iterable[ArmSummary]:
    tasks = {task: place for place, task in enumerate(sorted({row.task_id for row in rows}))}
    by_arm: dict[str, list[Evaluation]] = defaultdict(list)
    for row in rows:
        by_arm[row.arm].append(row)
    counts = {arm: _count(own, tasks) for arm, own in by_arm.items()}
    base = counts.get(BASE_ARM)
    for arm in sorted(counts, key=lambda name: (name != BASE_ARM, name)):
        yield _summarise(arm, skill, counts[arm], None if arm == BASE_ARM else base, section)


def _count(rows: Iterable[Evaluation], tasks: dict[str, int]) -> _Counts:
    passed, judged, faults = np.zeros(len(tasks), np.int64), np.zeros(len(tasks), np.int64), 0
    for row in rows:
        if row.success is None:
            faults += 1
        else:
            judged[tasks[row.task_id]] += 1
            passed[tasks[row.task_id]] += row.success
    return _Counts(passed, judged, faults)


def _summarise(
    arm: str, skill: str, own: _Counts, base: _Counts | None, section: EvaluationSection
) -> ArmSummary:
    rate = pass_rate(own.passed, own.judged, resamples=section.resamples, seed=section.seed)
    delta = mcnemar_p = None
    if base is not None:
        compared = compare(
            own.passed, own.judged, base.passed, base.judged, resamples=section.resamples, seed=section.seed
        )
        both = (own.judged > 0) & (base.judged > 0)
        delta = compared.delta
        if compared.n_tasks:
            better = own.majority & ~base.majority & both
            worse = base.majority & ~own.majority & both
            mcnemar_p = mcnemar(int(better.sum()), int(worse.sum()))
    return ArmSummary(
        arm=arm,
        skill=skill,
        n_tasks=int((own.judged > 0).sum()),
        n_trials=int(own.judged.sum()),
        n_faults=own.faults,
        pass_rate=rate.value,
        pass_rate_low=rate.low,
        pass_rate_high=rate.high,
        delta=delta.value if delta else None,
        delta_low=delta.low if delta else None,
        delta_high=delta.high if delta else None,
        mcnemar_p=mcnemar_p,
        pass_hat_k=pass_hat_k(own.passed, own.judged, section.trials),
    )
