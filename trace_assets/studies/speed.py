"""How long the bootstrap takes on a million labels: `python -m trace_assets.studies.speed`."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from trace_assets.diagnosis.contrast import contrast_matrix, count_by_task, rates
from trace_assets.diagnosis.label_matrix import LabelMatrix
from trace_assets.settings import ContrastSection
from trace_assets.statistics.bootstrap import resample_each

SHAPES = ((12_500, 10, 8), (62_500, 2, 8), (2_000, 20, 25), (250_000, 4, 1), (1_000_000, 1, 1))
"""Tasks, trials and capabilities: a million labels each."""


@dataclass(frozen=True)
class Timing:
    """Seconds of processor time for one shape of a million labels.

    Attributes:
        bootstrap: Counts by task and 1,000 resamples of all rates.
        whole: The contrast with everything: intervals, matched pairs, permutation p, q.
    """

    tasks: int
    trials: int
    capabilities: int
    bootstrap: float
    whole: float


def random_matrix(tasks: int, trials: int, rows: int, seed: int = 0) -> LabelMatrix:
    """Return labels without any structure, the worst case for a bootstrap that gains from repetition.

    >>> random_matrix(3, 2, 1).codes.shape
    (1, 6)
    """
    rng = np.random.default_rng(seed)
    columns = tasks * trials
    return LabelMatrix(
        capabilities=tuple(f"c{row}" for row in range(rows)),
        trajectories=(),
        tasks=np.repeat(np.arange(tasks), trials),
        failed=rng.random(columns) < 0.5,
        codes=rng.integers(0, 3, (rows, columns)).astype(np.int8),
        evidence=np.zeros((rows, columns), dtype=np.int32),
    )


def measure() -> list[Timing]:
    """Time every shape once."""
    timings = []
    for tasks, trials, rows in SHAPES:
        matrix = random_matrix(tasks, trials, rows)
        start = time.process_time()
        counts = count_by_task(matrix)
        sums = resample_each(counts, 1000, 0)
        for row in range(rows):
            rates(counts[:, row], sums[:, row], 0.95)
        middle = time.process_time()
        contrast_matrix(matrix, ContrastSection(resamples=1000), "t")
        timings.append(Timing(tasks, trials, rows, middle - start, time.process_time() - middle))
    return timings


if __name__ == "__main__":
    for one in measure():
        print(
            f"{one.tasks:>9,} tasks x {one.trials:>2} trials x {one.capabilities:>2} capabilities: "
            f"bootstrap {one.bootstrap:.2f} s, whole contrast {one.whole:.2f} s of processor time"
        )
