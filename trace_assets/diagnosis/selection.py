"""Selection: which capabilities are worth an environment and an adapter, and why the others are not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from trace_assets.diagnosis.contrast import TESTABLE
from trace_assets.diagnosis.cover import Cover, interval_words
from trace_assets.diagnosis.label_matrix import LabelMatrix
from trace_assets.records import Capability, Contrast, Label, SelectedCapability, Triage
from trace_assets.settings import Selection

EMPTY_RELEVANT = 10
"""Relevant successes from which an ER+ of exactly 0 is suspicious."""


def empty_contrast(contrasts: Sequence[Contrast]) -> list[Contrast]:
    """Return the capabilities whose labels may follow the outcome, so that there is no contrast at all.

    Either no success lacks it although ten or more needed it, or, on ten or more trajectories that needed it,
    every failure lacks it and every success has it. Every lack may be fatal; but the published label runs
    of the reference are like this (42 LACKING and 0 PRESENT on failures, 0 and 7 on successes), whose
    labeller saw the reward: a person should look.
    """
    return [
        row
        for row in contrasts
        if row.er_passed == 0
        and (
            row.n_passed_relevant >= EMPTY_RELEVANT
            or (row.er_failed == 1 and row.n_failed_relevant + row.n_passed_relevant >= EMPTY_RELEVANT)
        )
    ]


def select(
    contrasts: Sequence[Contrast],
    capabilities: Sequence[Capability],
    labels: Sequence[Label],
    triage: Sequence[Triage],
    section: Selection,
) -> list[SelectedCapability]:
    """Decide on every candidate, target by target.

    First each candidate alone must pass the thresholds, see `shortcoming`. Then candidates are taken by
    greedy marginal coverage per expected cost (`expected_cost`): each time the one that is lacking in most of
    the failures that none taken so far explains, for what teaching it costs. Two guards keep consequences
    from being taken for causes:

    - a candidate waits when its coverage or gap goes away once the lacking trajectories of others are set
      aside. The others are those that explain failures beyond its own, and those whose evidence comes
      before its own in most failures that lack both: of two that go together, the earlier is the cause;
    - after a candidate is taken, the others must still show the gap outside of what it explains.

    Args:
        contrasts: One row a candidate.
        capabilities: The candidates' names.
        labels: Labels behind the contrasts.
        triage: Outcomes of all trajectories.
        section: Thresholds.

    Returns:
        One row a candidate, the kept ones first by the order in which they were taken, rejected ones by
        coverage; ranks count from 1 within a target.
    """
    names = {row.capability_id: row.name for row in capabilities}
    detectors = {row.capability_id: row.detector or "" for row in capabilities}
    groups: dict[str, list[Contrast]] = defaultdict(list)
    for row in sorted(contrasts, key=lambda row: (row.target, row.capability_id)):
        groups[row.target].append(row)
    decided: list[SelectedCapability] = []
    for target, own in groups.items():
        matrix = LabelMatrix.build(labels, triage, target)
        decided += select_matrix(own, matrix, section, names, detectors)
    return decided


def select_matrix(
    own: Sequence[Contrast],
    matrix: LabelMatrix,
    section: Selection,
    names: Mapping[str, str] = {},
    detectors: Mapping[str, str] = {},
) -> list[SelectedCapability]:
    """Decide on the candidates of one target; see `select`.

    Args:
        own: One row a candidate.
        matrix: Labels beside outcomes that the rows were estimated from.
        section: Thresholds.
        names: Capability id to name; the id where none is given.
        detectors: Capability id to detector family, for prices.
    """
    costs = {
        row.capability_id: expected_cost(row, section, detectors.get(row.capability_id, "")) for row in own
    }
    rejected = {row.capability_id: reason for row in own if (reason := shortcoming(row, section))}
    passing = [row for row in own if row.capability_id not in rejected]
    taken = Cover(passing, matrix, names, costs, section).take()
    for row in own:
        if row.capability_id in rejected:
            taken.verdicts[row.capability_id] = (False, None, rejected[row.capability_id])
    rest = sorted(
        (row for row in own if row.capability_id not in taken.order),
        key=lambda row: (-(row.coverage or 0.0), row.capability_id),
    )
    targets = {row.capability_id: row.target for row in own}
    decided = []
    order = [*taken.order, *(row.capability_id for row in rest)]
    for rank, capability in enumerate(order, start=1):
        kept, marginal, reason = taken.verdicts[capability]
        decided.append(
            SelectedCapability(
                capability_id=capability,
                target=targets[capability],
                name=names.get(capability, capability),
                kept=kept,
                rank=rank,
                reason=reason,
                marginal_coverage=marginal,
                expected_cost=costs[capability],
            )
        )
    return decided


def expected_cost(row: Contrast, section: Selection, detector: str = "") -> float:
    """Return what teaching a capability is expected to cost, in units of one training.

    The price of a training, from `selection.prices` by capability or detector, 1 unless given. With
    `selection.cost = "signal"` it is divided by the share of groups that carry a gradient, 1 - p^K - (1-p)^K
    for groups of K rollouts that each succeed with p: groups that all fail or all pass teach nothing (see
    GRPO's advantage), so a capability that is never exercised takes more rollouts. p is the share of relevant
    trajectories that exercise it, which is what the agent will do in its environment at first; it is kept
    within 1 / (2 n) of 0 and 1.

    >>> from trace_assets.settings import Selection
    >>> row = Contrast.model_construct(capability_id="c", n_failed_relevant=50, n_passed_relevant=50,
    ...                                n_failed_lacking=45, n_passed_lacking=0)
    >>> expected_cost(row, Selection()), round(expected_cost(row, Selection(cost="signal")), 2)
    (1.0, 1.01)
    """
    price = section.prices.get(row.capability_id, section.prices.get(detector, 1.0))
    if section.cost == "equal":
        return price
    relevant = row.n_failed_relevant + row.n_passed_relevant
    if relevant == 0:
        return price
    lacking = row.n_failed_lacking + row.n_passed_lacking
    p = min(max(1 - lacking / relevant, 0.5 / relevant), 1 - 0.5 / relevant)
    k = section.cost_group_size
    return price / float(1 - p**k - (1 - p) ** k)


def shortcoming(row: Contrast, section: Selection) -> str:
    """Return why a candidate fails on its own, all reasons with their figures; empty when it passes."""
    if row.gap is None or row.coverage is None:
        return (
            f"gap undefined: relevant to {row.n_failed_relevant} of {row.n_failed} failures and "
            f"{row.n_passed_relevant} of {row.n_passed} successes"
        )
    reasons = []
    for side, n in (("failures", row.n_failed_relevant), ("successes", row.n_passed_relevant)):
        if n < section.min_relevant:
            reasons.append(f"only {n} relevant {side}, {section.min_relevant} are needed")
    gap = interval_words(row.gap, row.gap_low, row.gap_high)
    if row.gap < section.min_gap:
        reasons.append(f"gap {gap} is below {section.min_gap:.2f}")
    elif row.gap_low is None or row.gap_low < section.min_gap_low:
        reasons.append(f"the lower bound of the gap {gap} is below {section.min_gap_low:.2f}")
    coverage = interval_words(row.coverage, row.coverage_low, row.coverage_high)
    if row.coverage < section.min_coverage:
        reasons.append(f"coverage {coverage} is below {section.min_coverage:.2f}")
    elif row.coverage_low is None or row.coverage_low < section.min_coverage_low:
        reasons.append(f"the lower bound of the coverage {coverage} is below {section.min_coverage_low:.2f}")
    if row.q_value is None:
        reasons.append(f"not tested: fewer than {TESTABLE} relevant on one side")
    elif row.q_value > section.max_q:
        reasons.append(
            f"q value {row.q_value:.3f} is above {section.max_q:.2f} (p {row.p_value:.3f}, "
            f"{row.n_considered or 1} considered)"
        )
    if row.alpha is not None and row.alpha < section.min_alpha and not section.override_agreement:
        alpha = interval_words(row.alpha, row.alpha_low, row.alpha_high)
        reasons.append(f"labels agree to alpha {alpha} only, {section.min_alpha:.2f} is needed")
    if row.gap >= section.min_gap and _difficulty(row, section):
        varying = interval_words(row.varying_gap or 0.0, row.varying_gap_low, row.varying_gap_high)
        reasons.append(
            f"in the {row.n_varying_tasks} tasks with runs that lack it and runs that do not, the former do "
            f"not fail more often (gap {varying}): hard tasks are behind the gap, not the lack"
        )
    return "; ".join(reasons)


def _difficulty(row: Contrast, section: Selection) -> bool:
    """Whether runs of the same tasks say that the lack costs nothing, on enough tasks to tell."""
    return (
        row.n_varying_tasks >= section.min_varying_tasks
        and row.varying_gap_high is not None
        and row.varying_gap_high < section.min_gap
    )
