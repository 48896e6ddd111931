"""What one policy alone lacks: over all policies together its gap and coverage drown in the others' runs."""

from __future__ import annotations

from typing import NamedTuple

from trace_assets.diagnosis.contrast import TESTABLE
from trace_assets.diagnosis.label_matrix import LACKING, PRESENT, LabelMatrix
from trace_assets.settings import Selection
from trace_assets.stats.tests import at_least

CHANCE = 0.05
"""Chance that a policy's lacks fall on its failures so, over all policies, below which it is worth a look."""
FEWEST = 3
"""Failures of the policy that must lack it."""


class Alone(NamedTuple):
    """The figures of one policy's own runs."""

    policy: str
    gap: float
    coverage: float
    chance: float
    lacking: int
    failed: int

    def __str__(self) -> str:
        return (
            f"in the runs of '{self.policy}' alone the gap is {self.gap:.2f} and it is lacking in "
            f"{self.lacking} of {self.failed} failures (chance {self.chance:.3g}): diagnose it by itself"
        )


def alone(matrix: LabelMatrix, capability: str, section: Selection) -> Alone | None:
    """Return the policy whose own runs show the gap and the coverage that are asked for, the clearest one.

    Args:
        matrix: Labels beside outcomes, of several policies.
        capability: Which row.
        section: Thresholds.
    """
    if matrix.policy is None:
        return None
    codes = matrix.codes[matrix.capabilities.index(capability)]
    found: list[Alone] = []
    for number, policy in enumerate(matrix.policies):
        own = matrix.policy == number
        failed, passed = own & matrix.failed, own & ~matrix.failed
        bad, good = (int((codes[side] == LACKING).sum()) for side in (failed, passed))
        n_bad = bad + int((codes[failed] == PRESENT).sum())
        n_good = good + int((codes[passed] == PRESENT).sum())
        if bad < FEWEST or min(n_bad, n_good) < TESTABLE:
            continue
        gap, coverage = bad / n_bad - good / n_good, bad / int(failed.sum())
        chance = min(1.0, len(matrix.policies) * at_least(bad, n_bad, good, n_good))
        if gap >= section.min_gap and coverage >= section.min_coverage and chance <= CHANCE:
            found.append(Alone(policy, gap, coverage, chance, bad, int(failed.sum())))
    return min(found, key=lambda one: (one.chance, one.policy), default=None)
