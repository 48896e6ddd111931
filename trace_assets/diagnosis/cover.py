"""Greedy coverage: which of several candidates explain the failures, so that no deficit is bought twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trace_assets.diagnosis.label_matrix import LACKING, PRESENT, LabelMatrix
from trace_assets.records import Contrast
from trace_assets.settings import Selection


@dataclass
class Taken:
    """What was taken in which order, and for each candidate whether, how much it adds, and why."""

    order: list[str] = field(default_factory=list)
    verdicts: dict[str, tuple[bool, float | None, str]] = field(default_factory=dict)


class Cover:
    """Greedy marginal coverage per expected cost over the candidates of one target that passed alone.

    Args:
        passing: Their contrasts.
        matrix: Labels beside outcomes.
        names: Capability id to name.
        costs: Capability id to expected cost; 1 where none is given.
        section: Thresholds.
    """

    def __init__(
        self,
        passing: Sequence[Contrast],
        matrix: LabelMatrix,
        names: Mapping[str, str],
        costs: Mapping[str, float],
        section: Selection,
    ) -> None:
        self.rows, self.matrix, self.names, self.section = list(passing), matrix, names, section
        self.costs = costs
        line = {capability: place for place, capability in enumerate(matrix.capabilities)}
        codes = {row.capability_id: matrix.codes[line[row.capability_id]] for row in passing}
        self.lacking = {capability: code == LACKING for capability, code in codes.items()}
        self.present = {capability: code == PRESENT for capability, code in codes.items()}
        self.evidence = {row.capability_id: matrix.evidence[line[row.capability_id]] for row in passing}
        self.n_failed = int(matrix.failed.sum())

    def take(self) -> Taken:
        """Take candidates until none that is left stands on its own, or the most allowed are taken."""
        taken = Taken()
        explained = np.zeros(len(self.matrix.failed), dtype=np.bool_)
        left = list(self.rows)
        while left and len(taken.order) < self.section.max_capabilities:
            fit = [row for row in left if self._stands(row.capability_id, explained)]
            if not fit:
                break
            best = self._cause(fit, explained)
            capability = best.capability_id
            new = self._new(capability, explained)
            taken.order.append(capability)
            taken.verdicts[capability] = (True, new / self.n_failed, self._praise(best, new))
            explained |= self.lacking[capability]
            left = [row for row in left if row is not best]
        for row in left:
            new = self._new(row.capability_id, explained)
            reason = self._excuse(row, new, explained, taken.order)
            taken.verdicts[row.capability_id] = (False, new / self.n_failed, reason)
        return taken

    def _new(self, capability: str, explained: NDArray[np.bool_]) -> int:
        return int((self.lacking[capability] & ~explained & self.matrix.failed).sum())

    def _gap(self, capability: str, aside: NDArray[np.bool_]) -> float | None:
        """Gap on the trajectories that are not set aside; None where a side has none that is relevant."""
        rates = []
        for side in (self.matrix.failed, ~self.matrix.failed):
            lacking = int((self.lacking[capability] & side & ~aside).sum())
            relevant = lacking + int((self.present[capability] & side & ~aside).sum())
            if relevant == 0:
                return None
            rates.append(lacking / relevant)
        return rates[0] - rates[1]

    def _stands(self, capability: str, aside: NDArray[np.bool_]) -> bool:
        """Whether it still covers enough failures, with a gap, on what is not set aside."""
        if self._new(capability, aside) < self.section.min_marginal_coverage * self.n_failed:
            return False
        gap = self._gap(capability, aside)
        return gap is None or gap >= self.section.min_gap

    def _cause(self, fit: Sequence[Contrast], explained: NDArray[np.bool_]) -> Contrast:
        """The one with most new coverage for its cost that the others together do not explain."""
        order = sorted(
            fit,
            key=lambda row: (
                -self._new(row.capability_id, explained) / self.costs.get(row.capability_id, 1.0),
                -(row.gap or 0.0),
                row.capability_id,
            ),
        )
        while True:
            best = order[0].capability_id
            others = [
                row
                for row in order[1:]
                if self._precedes(row.capability_id, best)
                or self._stands(row.capability_id, explained | self.lacking[best])
            ]
            together = explained.copy()
            for row in others:
                together |= self.lacking[row.capability_id]
            if not others or self._stands(best, together):
                return order[0]
            order = others

    def _precedes(self, first: str, second: str) -> bool:
        """Whether the first's evidence is the earlier in most failures that lack both."""
        both = self.lacking[first] & self.lacking[second] & self.matrix.failed
        one, other = self.evidence[first][both], self.evidence[second][both]
        return int((one < other).sum()) > len(one) / 2

    def _praise(self, row: Contrast, new: int) -> str:
        gap = interval_words(row.gap or 0.0, row.gap_low, row.gap_high)
        words = f"gap {gap}, lacking in {new} of {self.n_failed} failures that no earlier one explains"
        cost = self.costs.get(row.capability_id, 1.0)
        if cost != 1:
            words += f", at an expected cost of {cost:.3g}"
        if row.alpha is not None and row.alpha < self.section.min_alpha:
            words += (
                f"; labels agree to alpha {row.alpha:.2f} only, {self.section.min_alpha:.2f} is asked for: "
                "overridden by selection.override_agreement"
            )
        return words

    def _excuse(self, row: Contrast, new: int, explained: NDArray[np.bool_], kept: Sequence[str]) -> str:
        capability = row.capability_id
        if self._stands(capability, explained):
            return (
                f"{len(kept)} capabilities are already taken, the most allowed: "
                f"it would add {new} of {self.n_failed} failures"
            )
        overlap = [
            int((self.lacking[capability] & self.lacking[one] & self.matrix.failed).sum()) for one in kept
        ]
        if not kept or max(overlap) == 0:
            return f"it covers {new} of {self.n_failed} failures, {self._least} are needed"
        other = self.names.get(kept[int(np.argmax(overlap))], kept[int(np.argmax(overlap))])
        if new < self.section.min_marginal_coverage * self.n_failed:
            return f"its failures are already covered by '{other}': adds {new} of {self.n_failed}"
        gap = self._gap(capability, explained)
        assert gap is not None
        return (
            f"explained by '{other}': on the trajectories that do not lack it the gap is {gap:.2f}, "
            f"below {self.section.min_gap:.2f}"
        )

    @property
    def _least(self) -> str:
        return f"{int(np.ceil(self.section.min_marginal_coverage * self.n_failed))}"


def interval_words(value: float, low: float | None, high: float | None) -> str:
    """Write a figure with its interval.

    >>> interval_words(0.5, 0.25, 0.75), interval_words(1.0, None, None)
    ('0.50 [0.25, 0.75]', '1.00 [no interval: one task]')
    """
    if low is None or high is None:
        return f"{value:.2f} [no interval: one task]"
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"
