"""The contrast: is a capability lacking more often in failures than in successes that needed it too?"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from trace_assets.diagnosis.label_matrix import LACKING, MISSING, PRESENT, LabelMatrix
from trace_assets.records import Contrast, Label, Triage
from trace_assets.settings import ContrastSection
from trace_assets.statistics.bootstrap import difference, ratio, resample
from trace_assets.statistics.multiplicity import benjamini_hochberg
from trace_assets.statistics.permutation import gap_p_value

_LF, _RF, _LP, _RP, _F, _P = range(6)
"""Columns: lacking, relevant among failed; lacking, relevant among passed; labelled failed, passed."""


def contrast(
    labels: Sequence[Label], triage: Sequence[Triage], section: ContrastSection, target: str
) -> list[Contrast]:
    """Estimate error rates, gap and coverage of every labelled capability of one target.

    ER- = LACKING / (LACKING + PRESENT) over the agent's failures, ER+ the same over successes, gap = ER- -
    ER+, coverage = LACKING among failures / failures (TRACE, arXiv 2604.05336, section 3). Trials of a task
    are not independent: intervals come from a bootstrap over tasks, p-values from a permutation within and
    between tasks, q-values from Benjamini and Hochberg over the candidates of this target.

    Args:
        labels: Every pass; trajectories without a label count for nothing, also not as NA.
        triage: Outcomes of all trajectories; only successes and failures put down to the agent count.
        section: Resamples, permutations, confidence, seed.
        target: Whose trajectories to use; others are ignored.

    Returns:
        One row a capability, sorted by id, the same for any order of the inputs. Rates whose denominator is
        empty are None, and so are bounds that would rest on a single task.
    """
    matrix = LabelMatrix.build(labels, triage, target)
    counts = count_by_task(matrix)
    tasks, rows, columns = counts.shape
    sums = resample(counts.reshape(tasks, rows * columns), section.resamples, section.seed)
    sums = sums.reshape(section.resamples, rows, columns)
    results = [
        _estimate(capability, counts[:, row], sums[:, row], section, target, matrix.alpha[row])
        for row, capability in enumerate(matrix.capabilities)
    ]
    q_values = benjamini_hochberg([result.p_value for result in results])
    return [result.model_copy(update={"q_value": q}) for result, q in zip(results, q_values, strict=True)]


def count_by_task(matrix: LabelMatrix, *, among: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
    """Count labels per task and capability.

    Args:
        matrix: Consensus labels.
        among: Columns to count, shape `(columns,)`; all unless given.

    Returns:
        Shape `(tasks, capabilities, 6)`: lacking and relevant among failed, lacking and relevant among
        passed, labelled failed, labelled passed.
    """
    chosen = np.ones(len(matrix.failed), dtype=np.bool_) if among is None else among
    lacking = (matrix.codes == LACKING) & chosen
    relevant = lacking | ((matrix.codes == PRESENT) & chosen)
    labelled = (matrix.codes != MISSING) & chosen
    failed = matrix.failed
    tasks = int(matrix.tasks.max(initial=-1)) + 1
    counts = np.zeros((tasks, len(matrix.capabilities), 6), dtype=np.int64)
    masks = (
        *(lacking & failed, relevant & failed, lacking & ~failed, relevant & ~failed),
        *(labelled & failed, labelled & ~failed),
    )
    for column, mask in enumerate(masks):
        for row in range(len(matrix.capabilities)):
            counts[:, row, column] = np.bincount(matrix.tasks, mask[row], tasks)
    return counts


def _estimate(
    capability: str,
    counts: NDArray[np.int64],
    sums: NDArray[np.float64],
    section: ContrastSection,
    target: str,
    alpha: float | None,
) -> Contrast:
    real, level = counts.astype(np.float64), section.confidence
    failed, passed, covered = (
        ratio(real[:, top], real[:, bottom], sums[:, top], sums[:, bottom], confidence=level)
        for top, bottom in ((_LF, _RF), (_LP, _RP), (_LF, _F))
    )
    gap = difference(failed, passed, level)
    rng = np.random.default_rng([section.seed, crc32(capability.encode())])
    totals = counts.sum(axis=0)
    er_failed, er_passed, coverage = (one.estimate(level) for one in (failed, passed, covered))
    return Contrast(
        capability_id=capability,
        target=target,
        er_failed=er_failed.value,
        er_failed_low=er_failed.low,
        er_failed_high=er_failed.high,
        er_passed=er_passed.value,
        er_passed_low=er_passed.low,
        er_passed_high=er_passed.high,
        gap=gap.value,
        gap_low=gap.low,
        gap_high=gap.high,
        coverage=coverage.value,
        coverage_low=coverage.low,
        coverage_high=coverage.high,
        p_value=gap_p_value(
            counts[:, _LF], counts[:, _RF], counts[:, _LP], counts[:, _RP], section.permutations, rng
        ),
        q_value=None,
        n_failed=int(totals[_F]),
        n_passed=int(totals[_P]),
        n_failed_relevant=int(totals[_RF]),
        n_passed_relevant=int(totals[_RP]),
        n_failed_lacking=int(totals[_LF]),
        n_passed_lacking=int(totals[_LP]),
        n_tasks=int((counts[:, _F] + counts[:, _P] > 0).sum()),
        alpha=alpha,
    )
