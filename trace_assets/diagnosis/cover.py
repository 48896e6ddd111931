"""Greedy coverage: which of several candidates explain the failures, so that no deficit is bought twice."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trace_assets.diagnosis.chance import SHUFFLES
from trace_assets.diagnosis.label_matrix import LACKING, PRESENT, LabelMatrix
from trace_assets.diagnosis.thresholds import FEW, interval_words
from trace_assets.records import Contrast
from trace_assets.settings import Selection
from trace_assets.stats.tests import gap_p_value


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
        proven: Capabilities of which an experiment shows that they decide.
        parents: As for `select_matrix`.
        outcome: Capabilities that say how runs ended: one is taken where nothing else is.
    """

    def __init__(
        self,
        passing: Sequence[Contrast],
        matrix: LabelMatrix,
        names: Mapping[str, str],
        costs: Mapping[str, float],
        section: Selection,
        proven: Collection[str] = (),
        parents: Mapping[str, str | None] = {},
        outcome: Collection[str] = (),
    ) -> None:
        self.proven, self.parents, self.outcome = proven, parents, outcome
        self.rows, self.matrix, self.names, self.section = list(passing), matrix, names, section
        self.costs = costs
        line = {capability: place for place, capability in enumerate(matrix.capabilities)}
        codes = {row.capability_id: matrix.codes[line[row.capability_id]] for row in passing}
        self.lacking = {capability: code == LACKING for capability, code in codes.items()}
        deciding = matrix.deciding
        self.deciding = {capability: deciding[line[capability]] for capability in codes}
        self.present = {capability: code == PRESENT for capability, code in codes.items()}
        self.evidence = {row.capability_id: matrix.evidence[line[row.capability_id]] for row in passing}
        self.n_failed = int(matrix.failed.sum())

    def take(self) -> Taken:
        """Take candidates until none that is left stands on its own, or the most allowed are taken."""
        taken = Taken()
        explained = np.zeros(len(self.matrix.failed), dtype=np.bool_)
        left = list(self.rows)
        while len(taken.order) < self.section.max_capabilities:
            fit = [row for row in left if self._stands(row.capability_id, explained)]
            if not fit:
                break
            broader = {self.parents.get(row.capability_id) for row in fit}
            fit = [row for row in fit if row.capability_id not in broader]
            fit = [row for row in fit if row.capability_id not in self.outcome] or (
                fit if not taken.order else []
            )
            if not fit:
                break
            best = self._cause(fit, explained)
            capability = best.capability_id
            new = self._new(capability, explained)
            taken.order.append(capability)
            words = self._praise(best, new) + self._overlaps(capability)
            if capability in self.outcome:
                words += (
                    "; lacking in nearly every failure and in no success, it may say how runs ended and not "
                    "why: read some of them before you teach it"
                )
            taken.verdicts[capability] = (True, new / self.n_failed, words)
            explained |= self._explained_by(capability)
            left = [row for row in left if row is not best]
        for row in left:
            new = self._new(row.capability_id, explained)
            reason = self._excuse(row, new, explained, taken.order)
            taken.verdicts[row.capability_id] = (False, new / self.n_failed, reason)
        return taken

    def _new(self, capability: str, explained: NDArray[np.bool_]) -> int:
        return int((self.deciding[capability] & ~explained & self.matrix.failed).sum())

    def _explained_by(self, capability: str) -> NDArray[np.bool_]:
        """Runs that it explains: failures that it decided, and every success that lacks it."""
        found: NDArray[np.bool_] = self.lacking[capability].copy()
        found[self.matrix.failed] = self.deciding[capability][self.matrix.failed]
        return found

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
        """Whether it still shows a gap on what is not set aside, and covers enough failures there.

        Where tasks need several lacking skills at once, those who lack one of them mostly lack another: a
        cause then adds few failures, however many it takes part in. But where the others are in order it
        still decides, which neither a second name nor a consequence of theirs does. So few failures are
        enough if it is as frequent there as elsewhere, and its gap there is no matter of chance, or repairs
        have shown that it decides.
        """
        new, gap = self._new(capability, aside), self._gap(capability, aside)
        if gap is not None and gap < self.section.min_gap:
            return False
        if new >= self.section.min_marginal_coverage * self.n_failed:
            return True
        return gap is not None and new >= FEW and self._apart(capability, aside)

    def _apart(self, capability: str, aside: NDArray[np.bool_]) -> bool:
        """Whether it is as frequent in failures that are not set aside as in the others, beyond chance."""
        lacking, failed = self.lacking[capability], self.matrix.failed
        relevant = lacking | self.present[capability]
        within, beyond = relevant & failed & aside, relevant & failed & ~aside
        if lacking[beyond].mean() < (lacking[within].mean() if within.any() else 0.0):
            return False
        if capability in self.proven:
            return True
        tasks = int(self.matrix.tasks.max()) + 1
        lf, rf, lp, rp = (
            np.bincount(self.matrix.tasks[mask & ~aside], minlength=tasks).astype(np.int64)
            for mask in (lacking & failed, relevant & failed, lacking & ~failed, relevant & ~failed)
        )
        p_value = gap_p_value(lf, rf, lp, rp, SHUFFLES, np.random.default_rng(0))
        return p_value is not None and p_value <= self.section.max_chance

    def _cause(self, fit: Sequence[Contrast], explained: NDArray[np.bool_]) -> Contrast:
        """The one with most new coverage for its cost that the others together do not explain."""
        order = sorted(
            fit,
            key=lambda row: (
                -self._new(row.capability_id, explained) / self.costs.get(row.capability_id, 1.0),
                row.er_passed or 0.0,
                -(row.gap or 0.0),
                row.capability_id,
            ),
        )
        # Coverage alone would choose what goes along with several causes. So the leader must still cover
        # enough failures, with a gap, that the others together leave unexplained. Others are those that stand
        # beyond the leader, or whose evidence comes before its own in the runs: what comes first may have
        # caused what comes later. If the leader falls, the race goes on among them: one fewer each time, so
        # it ends.
        while True:
            best = order[0].capability_id
            others = [
                row
                for row in order[1:]
                if self._precedes(row.capability_id, best)
                or self._stands(row.capability_id, explained | self._explained_by(best))
            ]
            together = explained.copy()
            for row in others:
                together |= self._explained_by(row.capability_id)
            if not others or self._stands(best, together):
                return order[0]
            order = others

    def _precedes(self, first: str, second: str) -> bool:
        """Whether the first's evidence is the earlier in most failures that lack both."""
        both = self.lacking[first] & self.lacking[second] & self.matrix.failed
        one, other = self.evidence[first][both], self.evidence[second][both]
        return int((one < other).sum()) > len(one) / 2

    def _praise(self, row: Contrast, new: int) -> str:
        gap = (
            "no gap, for no success needed it"
            if row.gap is None
            else f"gap {interval_words(row.gap, row.gap_low, row.gap_high)}"
        )
        words = f"{gap}, lacking in {new} of {self.n_failed} failures that no earlier one explains"
        cost = self.costs.get(row.capability_id, 1.0)
        if cost != 1:
            words += f", at an expected cost of {cost:.3g}"
        if row.alpha is not None and row.alpha < self.section.min_alpha:
            words += (
                f"; labels agree to alpha {row.alpha:.2f} only, {self.section.min_alpha:.2f} is asked for: "
                "overridden by selection.override_agreement"
            )
        return words

    def _overlaps(self, capability: str) -> str:
        """Say with which other candidates that passed alone it shares failures, most first.

        A case and what is broader share them by definition.
        """
        own = self.deciding[capability] & self.matrix.failed
        shared = {
            other: int((own & self.deciding[other]).sum())
            for other in self.deciding
            if other != capability
            and self.parents.get(capability) != other
            and self.parents.get(other) != capability
        }
        most = sorted((n, other) for other, n in shared.items() if n)[::-1][:3]
        if not most:
            return ""
        return "; shares " + ", ".join(f"{n} with '{self.names.get(other, other)}'" for n, other in most)

    def _excuse(self, row: Contrast, new: int, explained: NDArray[np.bool_], kept: Sequence[str]) -> str:
        capability = row.capability_id
        if capability in self.outcome:
            return (
                f"lacking in {row.n_failed_lacking} of {row.n_failed} failures and in none of the "
                f"{row.n_passed_relevant} successes that needed it: that says how runs ended, not why, and "
                "others say more; if it is what to teach, name it in selection.overrides"
            )
        if self._stands(capability, explained):
            return (
                f"{len(kept)} capabilities are already taken, the most allowed: "
                f"it would add {new} of {self.n_failed} failures"
            )
        overlap = [
            int((self.deciding[capability] & self.deciding[one] & self.matrix.failed).sum()) for one in kept
        ]
        aside = int((self.lacking[capability] & self.matrix.failed).sum()) - int(
            (self.deciding[capability] & self.matrix.failed).sum()
        )
        too_few = new < self.section.min_marginal_coverage * self.n_failed
        if aside and too_few and not any(overlap):
            return (
                f"it decided {new} of {self.n_failed} failures, {self._least} are needed: in {aside} that "
                "lack it, exercising it would not have changed the end"
            )
        if not kept or (too_few and not any(overlap)):
            return f"it covers {new} of {self.n_failed} failures, {self._least} are needed"
        # Where no failure is shared, the successes that lack both are what the other explains.
        both = [int((self.lacking[capability] & self.lacking[one]).sum()) for one in kept]
        most = max(range(len(kept)), key=lambda place: (overlap[place], both[place]))
        other = self.names.get(kept[most], kept[most])
        if too_few:
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
