"""The contrast: is a capability lacking more often in failures than in successes that needed it too?"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from trace_assets.diagnosis.label_matrix import LACKING, MISSING, PRESENT, LabelMatrix
from trace_assets.records import Capability, Contrast, Label, Triage
from trace_assets.settings import ContrastSection
from trace_assets.stats.agreement import alpha_estimate
from trace_assets.stats.intervals import Estimate, Ratio, difference, ratio, resample_each
from trace_assets.stats.paired import matched_gap
from trace_assets.stats.stratified import stratified_gap, stratified_p_value
from trace_assets.stats.tests import benjamini_hochberg, gap_p_value

_LF, _RF, _LP, _RP, _F, _P = range(6)
"""Columns: lacking, relevant among failed; lacking, relevant among passed; labelled failed, passed."""


TESTABLE = 8
"""Relevant trajectories on both sides from which a candidate is tested: below it even the clearest deficit
could hardly be significant, and would only raise what the others are corrected for."""


def can_be_tested(
    failed_relevant: NDArray[np.int64], passed_relevant: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which candidates are relevant often enough on both sides to be tested.

    >>> can_be_tested(np.array([8, 40, 40]), np.array([8, 7, 40])).tolist()
    [True, False, True]
    """
    return np.minimum(failed_relevant, passed_relevant) >= TESTABLE


def contrast(
    labels: Sequence[Label],
    triage: Sequence[Triage],
    section: ContrastSection,
    target: str,
    *,
    considered: int = 0,
) -> list[Contrast]:
    """Estimate error rates, gap and coverage of every labelled capability of one target.

    See `contrast_matrix`.

    Args:
        labels: Of all labellers and passes; trajectories without a label count for nothing, also not as NA.
        triage: Outcomes of all trajectories; only successes and failures put down to the agent count.
        section: Resamples, permutations, confidence, seed.
        target: Whose trajectories to use; others are ignored.
        considered: How many proposals the capabilities were picked among.

    Returns:
        One row a capability, sorted by id, the same for any order of the inputs. Rates whose denominator is
        empty are None, and so are bounds that would rest on a single task.
    """
    matrix = LabelMatrix.build(labels, triage, target)
    return contrast_matrix(matrix, section, target, considered=considered)


def contrast_matrix(
    matrix: LabelMatrix,
    section: ContrastSection,
    target: str,
    *,
    considered: int = 0,
    twice: Collection[str] = (),
) -> list[Contrast]:
    """Estimate error rates, gap and coverage of every capability of a matrix.

    Where several policies played, p and `policy_gap` compare each policy's runs among themselves.

    ER- = LACKING / (LACKING + PRESENT) over the agent's failures, ER+ the same over successes, gap = ER- -
    ER+, coverage = LACKING among failures / failures (TRACE, arXiv 2604.05336, section 3). Trials of a task
    are not independent: intervals come from a bootstrap over tasks, p-values from a permutation within and
    between tasks, q-values from Benjamini and Hochberg.

    Candidates are picked by a look at outcomes, so correcting for those picked alone would be too kind.
    Where the proposals were made blind, as detectors make them, each p-value is valid whatever is picked
    afterwards, and it is enough to correct for all that were considered: those not picked count as p = 1.
    What is relevant too seldom to be tested (`TESTABLE`) has a p-value and no q-value, and does not count.
    Candidates of a model that read the outcomes have no such count; `discovery.split = "half"` proposes from
    one half of the tasks and estimates on the other.

    Args:
        matrix: Labels beside outcomes.
        section: Resamples, permutations, confidence, seed.
        target: Named in the rows.
        considered: How many proposals the capabilities were picked among.
        twice: Capabilities that others stand for, see `duplicates`: they are no tests of their own and have
            no q-value.

    Returns:
        One row a capability, in the matrix's order; a capability's row depends on no other's, but for q.
    """
    counts = count_by_task(matrix)
    sums = resample_each(counts, section.resamples, section.seed)
    results = [
        _estimate(capability, counts[:, row], sums[:, row], section, target).model_copy(
            update={"p_value": p_value(matrix, row, counts[:, row], section)}
        )
        for row, capability in enumerate(matrix.capabilities)
    ]
    if matrix.policy is not None:
        within = [within_policies(matrix, row, section) for row in range(len(results))]
        results = [row.model_copy(update=own) for row, own in zip(results, within, strict=True)]
    relevant = counts.sum(axis=0)
    tested = can_be_tested(relevant[:, _RF], relevant[:, _RP])
    p_values = [
        row.p_value if test and row.capability_id not in twice else None
        for row, test in zip(results, tested, strict=True)
    ]
    considered = max(0, considered - len(twice))
    q_values = benjamini_hochberg(p_values, considered)
    tests = max(considered, sum(p is not None for p in p_values))
    alphas = _alphas(matrix, section)
    return [
        result.model_copy(
            update={
                "q_value": q,
                "n_considered": tests,
                "policies": matrix.policies if matrix.policies != ("",) else (),
                "alpha": alpha.value,
                "alpha_low": alpha.low,
                "alpha_high": alpha.high,
            }
        )
        for result, q, alpha in zip(results, q_values, alphas, strict=True)
    ]


def p_value(
    matrix: LabelMatrix, row: int, counts: NDArray[np.int64], section: ContrastSection
) -> float | None:
    """Return the p-value of one capability: of the gap, or where several policies played, within them.

    Args:
        matrix: Labels beside outcomes.
        row: Which capability of the matrix.
        counts: Its counts by task, as `count_by_task` gives them, shape `(tasks, 6)`.
        section: Permutations and seed.
    """
    rng = np.random.default_rng([section.seed, crc32(matrix.capabilities[row].encode())])
    if matrix.policy is None:
        sides = counts[:, _LF], counts[:, _RF], counts[:, _LP], counts[:, _RP]
        return gap_p_value(*sides, section.permutations, rng)
    lacking = matrix.codes[row] == LACKING
    relevant = lacking | (matrix.codes[row] == PRESENT)
    return stratified_p_value(
        lacking[relevant],
        matrix.failed[relevant],
        matrix.tasks[relevant],
        matrix.policy[relevant],
        section.permutations,
        rng,
    )


def within_policies(matrix: LabelMatrix, row: int, section: ContrastSection) -> dict[str, float | None]:
    """Return the gap of one capability within policies, where several played."""
    assert matrix.policy is not None
    lacking = matrix.codes[row] == LACKING
    relevant = lacking | (matrix.codes[row] == PRESENT)
    failed = matrix.failed
    counts = np.zeros((int(matrix.tasks.max()) + 1, int(matrix.policy.max()) + 1, 4), dtype=np.int64)
    masks = lacking & failed, relevant & failed, lacking & ~failed, relevant & ~failed
    for place, mask in enumerate(masks):
        np.add.at(counts[:, :, place], (matrix.tasks[mask], matrix.policy[mask]), 1)
    gap = stratified_gap(
        counts, resamples=section.resamples, seed=section.seed, confidence=section.confidence
    )
    return {
        "policy_gap": gap.value,
        "policy_gap_low": gap.low,
        "policy_gap_high": gap.high,
    }


def _alphas(matrix: LabelMatrix, section: ContrastSection) -> list[Estimate]:
    if matrix.votes is None:
        return [Estimate(None, None, None)] * len(matrix.capabilities)
    return [
        alpha_estimate(
            votes,
            matrix.tasks,
            resamples=section.resamples,
            seed=section.seed,
            confidence=section.confidence,
        )
        for votes in matrix.votes
    ]


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
            counts[:, row, column] = np.bincount(matrix.tasks[mask[row]], minlength=tasks)
    return counts


def _estimate(
    capability: str,
    counts: NDArray[np.int64],
    sums: NDArray[np.float64],
    section: ContrastSection,
    target: str,
) -> Contrast:
    level = section.confidence
    failed, passed, covered = rates(counts, sums, level)
    gap = difference(failed, passed, level)
    totals = counts.sum(axis=0)
    er_failed, er_passed, coverage = (one.estimate(level) for one in (failed, passed, covered))
    sides = counts[:, _LF], counts[:, _RF], counts[:, _LP], counts[:, _RP]
    matched, varying = (
        matched_gap(*sides, varying=only, resamples=section.resamples, seed=section.seed, confidence=level)
        for only in (False, True)
    )
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
        p_value=None,
        q_value=None,
        n_failed=int(totals[_F]),
        n_passed=int(totals[_P]),
        n_failed_relevant=int(totals[_RF]),
        n_passed_relevant=int(totals[_RP]),
        n_failed_lacking=int(totals[_LF]),
        n_passed_lacking=int(totals[_LP]),
        n_tasks=int((counts[:, _F] + counts[:, _P] > 0).sum()),
        alpha=None,
        matched_gap=matched.gap.value,
        matched_gap_low=matched.gap.low,
        matched_gap_high=matched.gap.high,
        n_pairs=matched.pairs,
        n_pair_tasks=matched.tasks,
        varying_gap=varying.gap.value,
        varying_gap_low=varying.gap.low,
        varying_gap_high=varying.gap.high,
        n_varying_tasks=varying.tasks,
    )


def rates(
    counts: NDArray[np.int64], sums: NDArray[np.float64], confidence: float
) -> tuple[Ratio, Ratio, Ratio]:
    """Return ER-, ER+ and coverage of one capability.

    Args:
        counts: Shape `(tasks, 6)`, as `count_by_task` gives them.
        sums: The same on resamples, shape `(resamples, 6)`.
        confidence: At which intervals will be asked for.
    """
    real = counts.astype(np.float64)
    failed, passed, covered = (
        ratio(real[:, top], real[:, bottom], sums[:, top], sums[:, bottom], confidence=confidence)
        for top, bottom in ((_LF, _RF), (_LP, _RP), (_LF, _F))
    )
    return failed, passed, covered


# Sample splitting: candidates from one half of the tasks, the contrast on the other.


def in_first_half(task_id: str) -> bool:
    """Whether candidates are proposed from this task when tasks are split: it never changes for a task.

    >>> 400 < sum(in_first_half(f"retail/{n}") for n in range(1000)) < 600
    True
    """
    return crc32(f"half/{task_id}".encode()) % 2 == 0


def estimation_share(triage: Iterable[Triage], capabilities: Sequence[Capability]) -> list[Triage]:
    """Return the outcomes that the contrast may use: those of tasks that proposed nothing.

    Cox (1975), "A note on data-dependent choice of hypotheses", Biometrika 62:441: what was picked by a look
    at some data is tested on others, so p-values hold whatever picked it.

    Args:
        triage: Outcomes of one target.
        capabilities: Its candidates; all outcomes are returned unless they come from one half of the tasks.
    """
    if not any(one.discovered_on == "half" for one in capabilities):
        return list(triage)
    return [row for row in triage if not in_first_half(row.task_id)]


def considered_tests(capabilities: Sequence[Capability]) -> int:
    """Return how many tests the q values of one target are corrected for, at least.

    Proposals that were made blind count whether or not they were picked; candidates of a model count by
    themselves, since nobody knows what it passed over. On another half of the tasks the picked ones suffice.

    >>> made = Capability(capability_id="a", target="t", name="a", description="", analyst="detectors",
    ...                   n_considered=30)
    >>> considered_tests([made, made.model_copy(update={"n_considered": None})])
    31
    >>> considered_tests([made.model_copy(update={"discovered_on": "half"})])
    0
    """
    if any(one.discovered_on == "half" for one in capabilities):
        return 0
    blind = [one.n_considered for one in capabilities if one.n_considered is not None]
    return max(blind, default=0) + len(capabilities) - len(blind)
