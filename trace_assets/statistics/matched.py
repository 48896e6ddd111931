"""The gap between runs of the same task: what difficulty cannot explain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trace_assets.statistics.bootstrap import Estimate, difference, ratio, resample

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class MatchedGap:
    """A gap from pairs of one failed and one passed trial of the same task.

    Attributes:
        gap: The estimate, all None without a pair, bounds None where one task gives all pairs.
        pairs: Disjoint pairs: the smaller of the two sides, summed over tasks.
        tasks: Tasks with relevant trials on both sides.
    """

    gap: Estimate
    pairs: int
    tasks: int


def matched_gap(
    failed_lacking: Ints,
    failed_relevant: Ints,
    passed_lacking: Ints,
    passed_relevant: Ints,
    *,
    varying: bool = False,
    resamples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> MatchedGap:
    """Estimate the gap within tasks that have both outcomes among their relevant trials.

    Mantel and Haenszel's common risk difference (Greenland and Robins 1985, "Estimation of a common effect
    parameter from sparse follow-up data", Biometrics 41:55): each task's difference of lacking rates is
    weighted by f p / (f + p) for f failed and p passed trials, so with one of each every pair weighs the
    same. A capability that is lacking in hard tasks but costs nothing has a gap over all trials and none
    here. The interval is that of the other rates, from a bootstrap over these tasks.

    Args:
        failed_lacking: LACKING among failed trials, shape `(tasks,)`.
        failed_relevant: LACKING or PRESENT among failed trials.
        passed_lacking: The same among passed trials.
        passed_relevant: The same among passed trials.
        varying: Only tasks whose relevant trials differ in the label too. Where all trials of a task lack it
            alike, trials of one task cannot say whether that matters, and pull the estimate to 0.
        resamples: Bootstrap draws.
        seed: The same seed gives the same interval.
        confidence: Nominal coverage.

    >>> one, no = np.ones(30, dtype=np.int64), np.zeros(30, dtype=np.int64)
    >>> found = matched_gap(one, one, no, one)
    >>> found.gap.value, found.pairs, found.tasks
    (1.0, 30, 30)
    >>> matched_gap(one, one, no, no).gap.value is None
    True
    """
    both = (failed_relevant > 0) & (passed_relevant > 0)
    if varying:
        lacking_trials = failed_lacking + passed_lacking
        both &= (lacking_trials > 0) & (lacking_trials < failed_relevant + passed_relevant)
    f, p = failed_relevant[both].astype(np.float64), passed_relevant[both].astype(np.float64)
    pairs, tasks = int(np.minimum(f, p).sum()), int(both.sum())
    if tasks == 0:
        return MatchedGap(Estimate(None, None, None), 0, 0)
    weight = f * p / (f + p)
    lacking, kept = weight * failed_lacking[both] / f, weight * passed_lacking[both] / p
    sums = resample(np.stack([lacking, kept, weight], axis=1), resamples, seed)
    failed = ratio(lacking, weight, sums[:, 0], sums[:, 2], trials=float(f.sum()), confidence=confidence)
    passed = ratio(kept, weight, sums[:, 1], sums[:, 2], trials=float(p.sum()), confidence=confidence)
    return MatchedGap(difference(failed, passed, confidence), pairs, tasks)
