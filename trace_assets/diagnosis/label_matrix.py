"""Labels of one target as one small matrix: what the passes agree on, for each capability and trajectory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trace_assets.records import Label, Triage
from trace_assets.statistics.agreement import krippendorff_alpha

MISSING, NA, PRESENT, LACKING = -1, 0, 1, 2
_CODES = {"NA": NA, "PRESENT": PRESENT, "LACKING": LACKING}
NO_EVIDENCE = np.iinfo(np.int32).max
"""Stands for the place of evidence that is an absence: later than any message."""


@dataclass(frozen=True)
class LabelMatrix:
    """Consensus labels of trajectories that entered the contrast.

    Attributes:
        capabilities: Ids, sorted: the rows.
        trajectories: Ids sorted by task and id: the columns. Only successes and the agent's own failures.
        tasks: Index of each column's task, shape `(columns,)`, counting from 0 without holes.
        failed: Whether the column is a failure, shape `(columns,)`.
        codes: MISSING, NA, PRESENT or LACKING, shape `(rows, columns)`.
        evidence: First message that shows it, NO_EVIDENCE where none does, shape `(rows, columns)`.
        alpha: Krippendorff's alpha of each row over all its labels, None with a single pass.
    """

    capabilities: tuple[str, ...]
    trajectories: tuple[str, ...]
    tasks: NDArray[np.int64]
    failed: NDArray[np.bool_]
    codes: NDArray[np.int8]
    evidence: NDArray[np.int32]
    alpha: tuple[float | None, ...]

    @classmethod
    def build(cls, labels: Sequence[Label], triage: Sequence[Triage], target: str) -> LabelMatrix:
        """Reconcile the passes and put labels beside outcomes.

        The consensus is the label most passes gave. A tie is NA: what the passes do not agree on is no
        evidence either way. A failure that triage puts down to a simulator, environment or server is left
        out, and so is an episode that was not judged.

        Args:
            labels: Any number of passes, any order, other targets' labels among them.
            triage: Outcomes; labels of trajectories that are not here are left out.
            target: Whose rows to use.
        """
        known = {row.trajectory_id for row in triage if row.target == target}
        own = [row for row in labels if row.trajectory_id in known]
        counted = sorted(
            (row.task_id, row.trajectory_id, row.outcome == "failed")
            for row in triage
            if row.target == target
            and (row.outcome == "passed" or (row.outcome == "failed" and row.fault == "agent"))
        )
        column = {trajectory: place for place, (_, trajectory, _) in enumerate(counted)}
        for trajectory in sorted(known - column.keys()):
            column[trajectory] = len(column)
        capabilities = tuple(sorted({row.capability_id for row in own}))
        passes = {number: place for place, number in enumerate(sorted({row.labelling_pass for row in own}))}
        line = {capability: place for place, capability in enumerate(capabilities)}
        votes = np.full((len(capabilities), len(column), max(1, len(passes))), MISSING, dtype=np.int8)
        evidence = np.full(votes.shape[:2], NO_EVIDENCE, dtype=np.int32)
        for row in own:
            where = line[row.capability_id], column[row.trajectory_id]
            votes[(*where, passes[row.labelling_pass])] = _CODES[row.label]
            if row.label == "LACKING" and row.evidence:
                evidence[where] = min(int(evidence[where]), min(row.evidence))
        n = len(counted)
        return cls(
            capabilities=capabilities,
            trajectories=tuple(trajectory for _, trajectory, _ in counted),
            tasks=np.unique([task for task, _, _ in counted], return_inverse=True)[1].astype(np.int64),
            failed=np.array([failed for _, _, failed in counted], dtype=np.bool_),
            codes=consensus(votes)[:, :n],
            evidence=evidence[:, :n],
            alpha=tuple(krippendorff_alpha(row) if len(passes) > 1 else None for row in votes),
        )


def consensus(votes: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return the label that most passes gave; NA on a tie, MISSING where no pass gave any.

    Args:
        votes: Codes, passes along the last axis.

    >>> consensus(np.array([[2, 2, 1], [2, 1, -1], [-1, 2, -1], [-1, -1, -1]], dtype=np.int8)).tolist()
    [2, 0, 2, -1]
    """
    counts = np.stack([(votes == code).sum(axis=-1) for code in (NA, PRESENT, LACKING)], axis=-1)
    best = counts.max(axis=-1)
    winner = np.where((counts == best[..., None]).sum(axis=-1) > 1, NA, counts.argmax(axis=-1))
    return np.where(best == 0, MISSING, winner).astype(np.int8)
