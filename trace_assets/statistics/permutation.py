"""Permutation test: do failures lack a capability more often than successes that needed it too?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_BLOCK = 2_000_000
"""Draws held at a time (16 MB)."""


def gap_p_value(
    failed_lacking: Ints,
    failed_relevant: Ints,
    passed_lacking: Ints,
    passed_relevant: Ints,
    permutations: int,
    rng: np.random.Generator,
) -> float | None:
    """Return the one-sided p-value of the contrastive gap, outcomes shuffled among relevant trajectories.

    The null hypothesis: among trajectories whose task needs the capability, outcome and label are unrelated.
    What may be exchanged under it:

    - within a task that has both outcomes among its relevant trials, the outcomes of these trials, so a
      hard task cannot pass for a lacking capability;
    - among tasks whose relevant trials all ended alike, the outcomes of whole tasks with equally many
      relevant trials, so trials of one task are never counted as independent.

    Both keep the number of relevant failures and successes, so the gap rises exactly with the number of
    lacking failures, which is (multivariate) hypergeometric and drawn as such: the cost hardly grows with the
    number of trials. p = (1 + as large or larger) / (1 + permutations) is never 0 (Phipson and Smyth 2010,
    "Permutation p-values should never be zero", SAGMB 9:39).

    Args:
        failed_lacking: LACKING among failed trials, shape `(tasks,)`.
        failed_relevant: LACKING or PRESENT among failed trials, shape `(tasks,)`.
        passed_lacking: The same among passed trials.
        passed_relevant: The same among passed trials.
        permutations: How many shuffles to draw.
        rng: Source of randomness.

    Returns:
        The p-value; None when no failure or no success was relevant, so that there is no gap.

    >>> rng = np.random.default_rng(0)
    >>> one, none = np.ones(50, dtype=np.int64), np.zeros(50, dtype=np.int64)
    >>> lacking = (np.arange(50) < 35) * one
    >>> both = np.concatenate
    >>> p = gap_p_value(both([lacking, none]), both([one, none]),
    ...                 both([none, (np.arange(50) < 8) * one]), both([none, one]), 999, rng)
    >>> p
    0.001
    """
    if failed_relevant.sum() == 0 or passed_relevant.sum() == 0:
        return None
    lacking = failed_lacking + passed_lacking
    relevant = failed_relevant + passed_relevant
    mixed = (failed_relevant > 0) & (passed_relevant > 0)
    drawn = np.zeros(permutations, dtype=np.int64)
    observed = int(failed_lacking.sum())

    informative = mixed & (lacking > 0) & (lacking < relevant)
    drawn += int(failed_lacking[mixed & ~informative].sum())
    drawn += _within_tasks(
        lacking[informative], relevant[informative], failed_relevant[informative], permutations, rng
    )

    uniform = ~mixed & (relevant > 0)
    for size in np.unique(relevant[uniform]):
        stratum = uniform & (relevant == size)
        failed_tasks = int((failed_relevant[stratum] > 0).sum())
        drawn += _between_tasks(lacking[stratum], failed_tasks, permutations, rng)
    return (1 + int((drawn >= observed).sum())) / (1 + permutations)


def _within_tasks(
    lacking: Ints, relevant: Ints, failed: Ints, permutations: int, rng: np.random.Generator
) -> Ints:
    total = np.zeros(permutations, dtype=np.int64)
    block = max(1, _BLOCK // permutations)
    for start in range(0, len(lacking), block):
        part = slice(start, start + block)
        good, bad, sample = lacking[part], (relevant - lacking)[part], failed[part]
        total += rng.hypergeometric(good, bad, sample, size=(permutations, len(good))).sum(axis=1)
    return total


def _between_tasks(lacking: Ints, failed_tasks: int, permutations: int, rng: np.random.Generator) -> Ints:
    values, tasks = np.unique(lacking, return_counts=True)
    chosen = rng.multivariate_hypergeometric(tasks, failed_tasks, size=permutations, method="marginals")
    return np.asarray(chosen @ values, dtype=np.int64)
