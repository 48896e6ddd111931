"""Two policies on the same tasks: what does the stronger one lack less, and what did it come to lack?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from trace_assets.diagnosis.label_matrix import LACKING, PRESENT, LabelMatrix
from trace_assets.records import Label, PolicyContrast, Triage
from trace_assets.settings import ContrastSection
from trace_assets.stats.paired import compare, swap_p_value
from trace_assets.stats.tests import benjamini_hochberg

Ints = NDArray[np.int64]
MIN_SHARED = 10
"""Tasks that two policies must both have been tried on to be compared without being asked for."""


@dataclass(frozen=True)
class _Arm:
    """One policy's counts, shape `(tasks,)` each, or `(capabilities, tasks)`."""

    failed: Ints
    judged: Ints
    lacking: Ints
    relevant: Ints


def contrast_policies(
    labels: Sequence[Label],
    triage: Sequence[Triage],
    policies: Mapping[str, str],
    names: Mapping[str, str],
    section: ContrastSection,
    target: str,
    *,
    only: tuple[str, str] | None = None,
) -> list[PolicyContrast]:
    """Compare every two policies of one target that share enough tasks, or the two that are named.

    All is paired by task: a capability's rate is the mean over tasks that need it under both policies of the
    share of relevant trials that lack it, its interval that of `paired.compare`, its p-value that of swapping
    the policies within tasks. A failure that is not the agent's counts for nothing. What is lacking less
    under the stronger policy need not be what made it stronger: `n_gained` tells in how many mended tasks the
    outcome improved too.

    Args:
        labels: All labels.
        triage: Outcomes.
        policies: Trajectory id to policy.
        names: Capability id to name.
        section: Resamples, permutations, confidence, seed.
        target: Whose trajectories to use.
        only: Two policies to compare however few tasks they share.

    Returns:
        For each pair a row of the failure rates (with an empty `capability_id`) and one a capability. The
        stronger policy is that with the lower failure rate on the shared tasks, by name when equal.
    """
    matrix = LabelMatrix.build(labels, triage, target)
    acted = [policies.get(one, "") for one in matrix.trajectories]
    present = sorted(set(acted))
    wanted = [tuple(sorted(only))] if only else list(combinations(present, 2))
    rows: list[PolicyContrast] = []
    for one, other in wanted:
        arms = {name: _arm(matrix, np.array([who == name for who in acted])) for name in (one, other)}
        shared = (arms[one].judged > 0) & (arms[other].judged > 0)
        if int(shared.sum()) < (1 if only else MIN_SHARED):
            continue
        rates = {name: float((arm.failed[shared] / arm.judged[shared]).mean()) for name, arm in arms.items()}
        strong, weak = sorted((one, other), key=lambda name: (rates[name], name))
        rows += _pair(matrix, (weak, arms[weak]), (strong, arms[strong]), names, section, target)
    return rows


def _arm(matrix: LabelMatrix, mine: NDArray[np.bool_]) -> _Arm:
    tasks = int(matrix.tasks.max(initial=-1)) + 1

    def count(mask: NDArray[np.bool_]) -> Ints:
        return np.bincount(matrix.tasks[mask], minlength=tasks)

    lacking = [count((row == LACKING) & mine) for row in matrix.codes]
    relevant = [count(((row == LACKING) | (row == PRESENT)) & mine) for row in matrix.codes]
    shape = len(matrix.capabilities), tasks
    return _Arm(
        failed=count(matrix.failed & mine),
        judged=count(mine),
        lacking=np.array(lacking, dtype=np.int64).reshape(shape),
        relevant=np.array(relevant, dtype=np.int64).reshape(shape),
    )


def _pair(
    matrix: LabelMatrix,
    weak: tuple[str, _Arm],
    strong: tuple[str, _Arm],
    names: Mapping[str, str],
    section: ContrastSection,
    target: str,
) -> list[PolicyContrast]:
    (weak_name, one), (strong_name, other) = weak, strong
    shared = (one.judged > 0) & (other.judged > 0)
    better = np.zeros(len(shared))
    better[shared] = one.failed[shared] / one.judged[shared] - other.failed[shared] / other.judged[shared]
    common = {"target": target, "weak": weak_name, "strong": strong_name}
    whole = {**common, "capability_id": "", "name": "failed by the agent"}
    failures = _row(whole, (one.failed, one.judged), (other.failed, other.judged), better, section)
    rows = [
        _row(
            {**common, "capability_id": capability, "name": names.get(capability, capability)},
            (one.lacking[row], one.relevant[row]),
            (other.lacking[row], other.relevant[row]),
            better,
            section,
        )
        for row, capability in enumerate(matrix.capabilities)
    ]
    q_values = benjamini_hochberg([row.p_value for row in rows])
    return [
        failures,
        *(row.model_copy(update={"q_value": q}) for row, q in zip(rows, q_values, strict=True)),
    ]


def _row(
    common: dict[str, str],
    weak: tuple[Ints, Ints],
    strong: tuple[Ints, Ints],
    better: NDArray[np.float64],
    section: ContrastSection,
) -> PolicyContrast:
    (lacking, relevant), (other_lacking, other_relevant) = weak, strong
    both = (relevant > 0) & (other_relevant > 0)
    found = compare(
        lacking,
        relevant,
        other_lacking,
        other_relevant,
        resamples=section.resamples,
        seed=section.seed,
        confidence=section.confidence,
    )
    change = lacking[both] / relevant[both] - other_lacking[both] / other_relevant[both]
    whole = common["capability_id"] == ""
    mended, broken = change > 0, change < 0
    gain = better[both]
    return PolicyContrast.model_validate(
        {
            **common,
            "weak_rate": found.arm.value,
            "weak_low": found.arm.low,
            "weak_high": found.arm.high,
            "strong_rate": found.base.value,
            "strong_low": found.base.low,
            "strong_high": found.base.high,
            "difference": found.delta.value,
            "difference_low": found.delta.low,
            "difference_high": found.delta.high,
            "p_value": swap_p_value(change, section.permutations, section.seed) if both.any() else None,
            "q_value": None,
            "n_tasks": int(both.sum()),
            "n_weak": int(relevant[both].sum()),
            "n_strong": int(other_relevant[both].sum()),
            "n_mended": int(mended.sum()),
            "n_broken": int(broken.sum()),
            "n_gained": int(((gain > 0) & (mended | whole)).sum()),
            "n_lost": int(((gain < 0) & (broken | whole)).sum()),
        }
    )


def policies_by_target(
    triage: Sequence[Triage], policies: Mapping[str, str]
) -> dict[str, dict[str, set[str]]]:
    """Return target to policy to the tasks that it was tried on."""
    tried: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for row in triage:
        if row.trajectory_id in policies:
            tried[row.target][policies[row.trajectory_id]].add(row.task_id)
    return {target: dict(own) for target, own in sorted(tried.items())}
