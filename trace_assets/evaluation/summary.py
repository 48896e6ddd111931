"""What the arms achieved, overall and per skill, each against the base arm on the same tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trace_assets.records import ArmSummary, Evaluation
from trace_assets.settings import EvaluationSection
from trace_assets.statistics.paired import compare, mcnemar, pass_hat_k, pass_rate

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
