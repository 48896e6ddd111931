"""What would be kept if outcomes had nothing to do with labels: the null that selection is held against.

Benjamini and Hochberg's q bounds the share of false ones among what is found. Where nothing at all is behind
the outcomes, all that is found is false, and a limit of 0.05 on q lets something through in up to one study
in twenty; where few candidates can be tested, it does. That something is found at all is therefore tested
by itself, by the whole procedure repeated on shuffled outcomes (Westfall and Young 1993, "Resampling-based
multiple testing", with the smallest p-value as statistic): candidates are picked anew, from all findings.

What is called promising is held against the same shuffles, with the largest standard score as statistic: of
some dozen candidates one or another shows a gap in most studies of some forty runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from trace_assets.diagnosis.candidates import MIN_NORM, UNTESTED
from trace_assets.diagnosis.contrast import contrast_matrix, count_by_task, p_value
from trace_assets.diagnosis.detector_analyst import DETECTORS, trajectories_hash
from trace_assets.diagnosis.label_matrix import LACKING, PRESENT, Codes, LabelMatrix
from trace_assets.diagnosis.thresholds import fewest, stands_alone
from trace_assets.records import Capability, ProposedFinding
from trace_assets.settings import ContrastSection, Discovery, Selection
from trace_assets.stats.stratified import common_gap

SHUFFLES = 999
RESAMPLES = 200
"""Bootstrap draws behind the bounds that the selection asks for, in each shuffle."""
_AT_ONCE = 64
_ROUNDING = 1e-9
"""P-values are sums of many terms: equal ones may differ by this part of themselves."""


@dataclass(frozen=True)
class Findings:
    """All that could have become a candidate, labelled without a look at outcomes.

    Attributes:
        codes: Labels, shape `(findings, columns)`, columns as in the matrix.
        norms: Share of relevant successes that must show a finding for it to be picked, shape `(findings,)`;
            0 where it is a candidate whatever the outcomes are.
        most: How many of those with a norm are picked at most.
    """

    codes: Codes
    norms: NDArray[np.float64]
    most: int

    @classmethod
    def of_candidates(cls, matrix: LabelMatrix) -> Findings:
        """Return a study's candidates as they stand, where nobody can say what else was looked at."""
        return cls(matrix.codes, np.zeros(len(matrix.codes)), 0)

    @classmethod
    def of_tables(
        cls,
        matrix: LabelMatrix,
        rows: Sequence[ProposedFinding],
        capabilities: Sequence[Capability],
        section: Discovery,
    ) -> Findings:
        """Return what a study's candidates were picked among, as its tables have it.

        Candidates stand as they are where they were proposed from other trajectories than these (one half of
        the tasks), or where somebody else than the detectors labelled them.
        """
        order = sorted(range(len(matrix.trajectories)), key=lambda place: matrix.trajectories[place])
        hashed = trajectories_hash(matrix.trajectories[place] for place in order)
        by_rule = {row.capability_id for row in capabilities if row.detector is not None}
        mine = [row for row in rows if row.trajectories_hash == hashed and len(row.labels) == len(order)]
        if not mine or any(labeller not in ("", DETECTORS) for labeller, _ in matrix.coders):
            return cls.of_candidates(matrix)
        codes = np.empty((len(mine), len(order)), dtype=np.int8)
        for place, row in enumerate(mine):
            codes[place, order] = [int(code) for code in row.labels]
        others = [place for place, name in enumerate(matrix.capabilities) if name not in by_rule]
        return cls.of_pool(
            codes, np.array([row.norm for row in mine]), section.max_candidates, matrix.codes[others]
        )

    @classmethod
    def of_pool(cls, codes: Codes, norms: NDArray[np.float64], most: int, others: Codes) -> Findings:
        """Return detectors' findings, and beside them candidates that are there whatever the outcomes are.

        Args:
            codes: Labels of the findings.
            norms: Their families' norms.
            most: How many of them are picked at most.
            others: Labels of the other candidates.
        """
        return cls(np.concatenate([codes, others]), np.concatenate([norms, np.zeros(len(others))]), most)


@dataclass(frozen=True)
class Null:
    """What shuffled outcomes come to.

    Attributes:
        least: Smallest p-value of each shuffle among what passes the thresholds (or 1), in order.
        strongest: Largest standard score of each shuffle among what shows gap and coverage (or 0), in order;
            empty where nobody can say.
    """

    least: NDArray[np.float64]
    strongest: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    def share(self, p_value: float) -> float:
        """Return in which share of studies without any effect something at least as clear is found.

        The study itself is one of them, so it is never 0 (Phipson and Smyth 2010).

        >>> Null(np.array([0.001, 0.2, 1.0, 1.0])).share(0.01)
        0.4
        """
        as_clear = int(np.searchsorted(self.least, p_value * (1 + _ROUNDING), side="right"))
        return (1 + as_clear) / (1 + len(self.least))

    def share_as_strong(self, score: float) -> float | None:
        """Return in which share of studies without any effect something as strong shows gap and coverage.

        None where nobody can say.

        >>> Null(np.ones(4), np.array([0.0, 0.5, 1.5, 2.0])).share_as_strong(1.5)
        0.6
        """
        if not len(self.strongest):
            return None
        weaker = int(np.searchsorted(self.strongest, score - _ROUNDING * abs(score), side="left"))
        return (1 + len(self.strongest) - weaker) / (1 + len(self.strongest))


def chance_null(
    matrix: LabelMatrix,
    findings: Findings,
    contrast: ContrastSection,
    selection: Selection,
    upto: float = 1.0,
    *,
    shuffles: int = SHUFFLES,
    seed: int = 0,
) -> Null:
    """Repeat picking, contrast and thresholds on shuffled outcomes, and note the clearest find of each.

    Args:
        matrix: Tasks and outcomes; its own labels are not used.
        findings: What candidates are picked from.
        contrast: Settings of p-values and intervals.
        selection: Thresholds; its limit on q is left out, as q rises with p.
        upto: Largest p-value that the null will be asked for: what is less clear is noted as 1, and its
            intervals, nearly all of the work, are not computed. With 0 scores alone are.
        shuffles: How often outcomes are shuffled.
        seed: The same seed gives the same null.
    """
    quick = contrast.model_copy(update={"resamples": min(RESAMPLES, contrast.resamples)})
    lacking = (findings.codes == LACKING).astype(np.float32)
    relevant = lacking + (findings.codes == PRESENT)
    least, strongest = np.ones(shuffles), np.zeros(shuffles)
    deals = _deals(matrix.tasks, matrix.policy)
    for start in range(0, shuffles, _AT_ONCE):
        turns = range(start, min(shuffles, start + _AT_ONCE))
        drawn = np.array(
            [_dealt(deals, matrix.failed, np.random.default_rng([seed, 2, turn])) for turn in turns]
        ).reshape(len(turns), len(matrix.failed))
        counts = _Counts.of(lacking, relevant, drawn)
        shown = _shown(counts, findings, selection)
        scores = np.where(shown & (counts.lf > 1), _scores(lacking, relevant, drawn, matrix.policy), 0.0)
        strongest[list(turns)] = scores.max(axis=0, initial=0.0)
        hopeful = shown & counts.enough(fewest(selection)) if upto > 0 else np.zeros_like(shown)
        for place in np.flatnonzero(hopeful.any(axis=0)):
            rows = np.flatnonzero(hopeful[:, place])
            study = replace(
                matrix,
                capabilities=tuple(f"{row:05}" for row in rows),
                failed=drawn[place],
                codes=findings.codes[rows],
                evidence=np.zeros((len(rows), 0), dtype=np.int32),
                votes=None,
                posterior=None,
            )
            study = _clear(study, quick, upto * (1 + _ROUNDING), selection.min_gap)
            if not len(study.codes):
                continue
            clear = [
                row.p_value
                for row in contrast_matrix(study, quick, "")
                if row.p_value is not None and stands_alone(row, selection)
            ]
            least[turns[place]] = min(clear, default=1.0)
    return Null(np.sort(least), np.sort(strongest))


def _clear(matrix: LabelMatrix, section: ContrastSection, upto: float, min_gap: float) -> LabelMatrix:
    """Return those findings of a matrix whose p-value is at most this, and which policies alone do not make.

    A gap within policies below the threshold makes a finding fall whatever its p-value is, and costs nothing.
    """
    if upto >= 1:
        return matrix
    wide = _rows(matrix, [row for row in range(len(matrix.codes)) if _within(matrix, row) >= min_gap])
    counts = count_by_task(wide)
    p_values = [p_value(wide, row, counts[:, row], section) for row in range(len(wide.codes))]
    return _rows(wide, [row for row, value in enumerate(p_values) if value is not None and value <= upto])


def _rows(matrix: LabelMatrix, rows: list[int]) -> LabelMatrix:
    return replace(
        matrix,
        capabilities=tuple(matrix.capabilities[row] for row in rows),
        codes=matrix.codes[rows],
        evidence=matrix.evidence[rows],
    )


def _within(matrix: LabelMatrix, row: int) -> float:
    """Return the gap of a finding within policies, infinite where one policy played all."""
    if matrix.policy is None:
        return np.inf
    lacking = matrix.codes[row] == LACKING
    relevant = lacking | (matrix.codes[row] == PRESENT)
    gap = common_gap(lacking[relevant], matrix.failed[relevant], matrix.policy[relevant])
    return 0.0 if gap is None else gap


@dataclass(frozen=True)
class _Counts:
    """Lacking and relevant among failed and passed columns, shape `(findings, shuffles)`; all of either."""

    lf: NDArray[np.float32]
    rf: NDArray[np.float32]
    lp: NDArray[np.float32]
    rp: NDArray[np.float32]
    n_failed: NDArray[np.float32]
    n_passed: NDArray[np.float32]

    @classmethod
    def of(
        cls, lacking: NDArray[np.float32], relevant: NDArray[np.float32], failed: NDArray[np.bool_]
    ) -> _Counts:
        outcomes = failed.T.astype(np.float32)
        lf, rf = lacking @ outcomes, relevant @ outcomes
        lp, rp = lacking.sum(axis=1)[:, None] - lf, relevant.sum(axis=1)[:, None] - rf
        passed = (1 - outcomes).sum(axis=0)
        return cls(lf, rf, lp, rp, np.maximum(outcomes.sum(axis=0), 1), np.maximum(passed, 1))

    def enough(self, least: int) -> NDArray[np.bool_]:
        """Which are relevant so often on both sides."""
        sides = np.rint(self.rf).astype(np.int64), np.rint(self.rp).astype(np.int64)
        return np.asarray(np.minimum(*sides) >= least)


def _shown(counts: _Counts, findings: Findings, selection: Selection) -> NDArray[np.bool_]:
    """Return which findings would be candidates that reach gap and coverage, shape `(findings, shuffles)`."""
    lf, rf, lp, rp = counts.lf, counts.rf, counts.lp, counts.rp
    norms, covered = findings.norms[:, None], lf / counts.n_failed
    normal = (norms > 0) & (rp >= MIN_NORM) & (rp - lp >= norms * rp)
    normal |= (norms > 0) & (rp < MIN_NORM) & (lp == 0) & (covered >= UNTESTED)
    score = np.where(normal, covered - lp / counts.n_passed, -np.inf)
    place = np.argsort(np.argsort(-score, axis=0, kind="stable"), axis=0, kind="stable")
    picked = (norms == 0) | (normal & (place < findings.most))
    gap = lf / np.maximum(rf, 1) - lp / np.maximum(rp, 1)
    wide = (gap >= selection.min_gap - 1e-6) & (covered >= selection.min_coverage - 1e-6)
    return np.asarray(picked & wide & (rf > 0) & (rp > 0))


def _scores(
    lacking: NDArray[np.float32],
    relevant: NDArray[np.float32],
    failed: NDArray[np.bool_],
    policy: NDArray[np.int64] | None,
) -> NDArray[np.float64]:
    """Return by how many standard deviations more failures lack each finding than chance alone has it.

    Within policies (Mantel and Haenszel 1959), outcomes dealt among the columns that are relevant.

    Args:
        lacking: Whether a column lacks it, shape `(findings, columns)`.
        relevant: Whether it is relevant, same shape.
        failed: Outcomes, shape `(shuffles, columns)`.
        policy: Who played each column; None where one policy played all.

    Returns:
        Shape `(findings, shuffles)`; 0 where nothing can vary.
    """
    outcomes = failed.T.astype(np.float64)
    beyond = np.zeros((len(lacking), outcomes.shape[1]))
    variance = np.zeros_like(beyond)
    for own in [slice(None)] if policy is None else [policy == one for one in np.unique(policy)]:
        bad, n = lacking[:, own].sum(axis=1)[:, None], np.maximum(relevant[:, own].sum(axis=1), 1)[:, None]
        drawn = relevant[:, own].astype(np.float64) @ outcomes[own]
        beyond += lacking[:, own].astype(np.float64) @ outcomes[own] - drawn * bad / n
        variance += bad * (n - bad) * drawn * (n - drawn) / (n**2 * np.maximum(n - 1, 1))
    return np.where(variance > _ROUNDING, beyond / np.sqrt(np.maximum(variance, _ROUNDING)), 0.0)


def standard_score(matrix: LabelMatrix, capability: str) -> float:
    """Return the score of one candidate of a study, see `_scores`.

    Args:
        matrix: Labels beside outcomes.
        capability: Which row.
    """
    codes = matrix.codes[matrix.capabilities.index(capability)][None]
    lacking = (codes == LACKING).astype(np.float32)
    relevant = lacking + (codes == PRESENT)
    return float(_scores(lacking, relevant, matrix.failed[None], matrix.policy)[0, 0])


def shuffled(
    tasks: NDArray[np.int64],
    failed: NDArray[np.bool_],
    rng: np.random.Generator,
    policy: NDArray[np.int64] | None = None,
) -> NDArray[np.bool_]:
    """Return outcomes that know nothing of the labels: swapped between tasks, then within them.

    Where several policies played, tasks swap only with tasks that the same policies played as often, each
    policy its own outcomes: what a policy fails more often and lacks more often stays beside each other.

    Args:
        tasks: Task of each trajectory, counted from 0, shape `(columns,)`.
        failed: Outcomes, same shape.
        rng: Source of randomness.
        policy: Policy of each trajectory, counted from 0; None where one played all.

    >>> rng = np.random.default_rng(0)
    >>> failed = shuffled(np.array([0, 0, 1, 1, 2]), np.array([True, True, False, False, True]), rng)
    >>> int(failed.sum()), bool(failed[4])  # the only task with one trial keeps its outcome
    (3, True)
    >>> both = shuffled(np.array([0, 0, 1, 1]), np.array([True, False] * 2), rng, np.array([0, 1, 0, 1]))
    >>> both.tolist()  # here the first policy always fails and the second never
    [True, False, True, False]
    """
    return _dealt(_deals(tasks, policy), failed, rng)


def _deals(
    tasks: NDArray[np.int64], policy: NDArray[np.int64] | None
) -> list[tuple[NDArray[np.int64], list[NDArray[np.bool_]]]]:
    """Return the tasks that swap outcomes with each other, and the columns of each of their policies.

    Args:
        tasks: As for `shuffled`.
        policy: The same.

    Returns:
        For each group the places of its tasks' trajectories, shape `(tasks, trajectories)`, and for each
        policy which of these columns are its own.
    """
    who = np.zeros(len(tasks), dtype=np.int64) if policy is None else policy
    order = np.lexsort((who, tasks))
    starts = np.searchsorted(tasks[order], np.arange(int(tasks.max(initial=-1)) + 2))
    sizes = np.diff(starts)
    found = []
    for size in np.unique(sizes[sizes > 0]):
        own = order[starts[:-1][sizes == size][:, None] + np.arange(size)]
        players, group = np.unique(who[own], axis=0, return_inverse=True)
        for number, line in enumerate(players):
            found.append((own[group.ravel() == number], [line == one for one in np.unique(line)]))
    return found


def _dealt(
    deals: list[tuple[NDArray[np.int64], list[NDArray[np.bool_]]]],
    failed: NDArray[np.bool_],
    rng: np.random.Generator,
) -> NDArray[np.bool_]:
    result = failed.copy()
    for cells, columns in deals:
        outcomes = failed[cells][rng.permutation(len(cells))]
        for own in columns:
            outcomes[:, own] = rng.permuted(outcomes[:, own], axis=1)
        result[cells] = outcomes
    return result
