"""Many studies of one world through the real contrast and selection, and what they got right."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tests.simulations.world import World, draw
from trace_assets.diagnosis.chance import Findings, chance_null
from trace_assets.diagnosis.contrast import contrast_matrix, count_by_task, rates
from trace_assets.diagnosis.label_matrix import LabelMatrix
from trace_assets.diagnosis.selection import select_matrix
from trace_assets.records import Contrast
from trace_assets.settings import ContrastSection, Selection
from trace_assets.stats.intervals import resample_each, wilson

FIGURES = ("er_failed", "er_passed", "gap", "coverage", "matched_gap")
POPULATION = 200_000
"""Tasks from which the truth is read: its standard error is below 0.003."""


@dataclass(frozen=True)
class Share:
    """How often something came true."""

    hits: int
    n: int

    @property
    def value(self) -> float | None:
        """The share; None of nothing."""
        return self.hits / self.n if self.n else None

    @property
    def bounds(self) -> tuple[float, float]:
        """Wilson's 95 % interval."""
        return wilson(self.hits, self.n)

    def __str__(self) -> str:
        if not self.n:
            return "–"
        low, high = self.bounds
        return f"{100 * self.hits / self.n:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


@dataclass(frozen=True)
class Outcome:
    """What the studies of one world came to.

    Attributes:
        world: The world.
        studies: How many.
        truth: Figure of each capability as labelled without end, by (capability, figure).
        flawless: The same with labels that make no errors.
        covered: How often the interval held `truth`, by (capability, figure).
        covered_flawless: How often it held `flawless`.
        kept: How often each capability was selected.
        false_by_q: Mean share of capabilities without a deficit among those with q below the limit and a gap
            above 0, of those whose true gap is 0.
        false_kept: Mean share of capabilities without a deficit among those selected.
        twice: How often one deficit was bought under two names.
    """

    world: World
    studies: int
    truth: dict[tuple[str, str], float]
    flawless: dict[tuple[str, str], float]
    covered: dict[tuple[str, str], Share]
    covered_flawless: dict[tuple[str, str], Share]
    kept: dict[str, Share]
    false_by_q: float
    false_kept: float
    twice: Share


def repeat(
    world: World,
    studies: int,
    seed: int = 0,
    *,
    section: ContrastSection | None = None,
    selection: Selection | None = None,
    shuffles: int = 0,
    tick: Callable[[int], None] = lambda done: None,
) -> Outcome:
    """Draw studies, diagnose each, and compare with what was planted.

    Args:
        world: What is planted.
        studies: How many.
        seed: The same seed gives the same studies.
        section: Of the contrast; the defaults unless given.
        selection: The defaults unless given.
        shuffles: Behind the null that what would be kept is held against; 0 asks for none.
        tick: Called with the number of studies done.
    """
    section, selection = section or ContrastSection(), selection or Selection()
    truth, flawless = true_figures(world, seed)
    names = [one.name for one in world.planted]
    held = dict.fromkeys(truth, 0)
    held_flawless, n = dict(held), dict(held)
    kept = dict.fromkeys(names, 0)
    null = {one.name for one in world.planted if one.cost == 0 and not one.twin_of}
    exact_null = {one.name for one in world.planted if one.name in null and one.lack_slope == 0}
    twins = [(one.name, one.twin_of) for one in world.planted if one.twin_of]
    by_q = by_kept = 0.0
    twice = 0
    for number in range(studies):
        matrix = draw(world, np.random.default_rng([seed, 1, number])).matrix
        rows = contrast_matrix(matrix, section, "world")
        findings = Findings.of_candidates(matrix)
        luck = partial(chance_null, matrix, findings, section, selection, shuffles=shuffles)
        decided = select_matrix(rows, matrix, selection, null=luck if shuffles else None)
        chosen = {row.capability_id for row in decided if row.kept}
        for row in rows:
            kept[row.capability_id] += row.capability_id in chosen
            for figure in FIGURES:
                low, high = getattr(row, f"{figure}_low"), getattr(row, f"{figure}_high")
                if low is None:
                    continue
                where = row.capability_id, figure
                n[where] += 1
                held[where] += low <= truth[where] <= high
                held_flawless[where] += low <= flawless[where] <= high
        found = {row.capability_id for row in rows if _significant(row, selection)}
        by_q += len(found & exact_null) / max(1, len(found))
        by_kept += len(chosen & null) / max(1, len(chosen))
        twice += any(one in chosen and other in chosen for one, other in twins)
        tick(number + 1)
    return Outcome(
        world=world,
        studies=studies,
        truth=truth,
        flawless=flawless,
        covered={where: Share(held[where], n[where]) for where in held},
        covered_flawless={where: Share(held_flawless[where], n[where]) for where in held},
        kept={name: Share(count, studies) for name, count in kept.items()},
        false_by_q=by_q / studies,
        false_kept=by_kept / studies,
        twice=Share(twice, studies),
    )


def _significant(row: Contrast, selection: Selection) -> bool:
    return row.q_value is not None and row.q_value <= selection.max_q and (row.gap or 0) > 0


def true_figures(
    world: World, seed: int = 0
) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], float]]:
    """Return every figure as labelled on tasks without end, and the same with labels that make no errors."""
    study = draw(world, np.random.default_rng([seed, 0]), POPULATION)
    return _figures(study.matrix), _figures(replace(study.matrix, codes=study.true))


def _figures(matrix: LabelMatrix) -> dict[tuple[str, str], float]:
    section = ContrastSection(resamples=100, permutations=100)
    plain = replace(matrix, votes=None, posterior=None)
    rows = contrast_matrix(plain, section, "world")
    return {
        (row.capability_id, figure): float(value) if value is not None else float("nan")
        for row in rows
        for figure in FIGURES
        for value in [getattr(row, figure)]
    }


# How long the bootstrap takes on a million labels: `python -m tests.simulations.repeat`.


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
