"""What it costs to pick candidates by their outcome and then to test them on the same trajectories."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tests.simulations.repeat import Share, repeat, true_figures
from tests.simulations.world import Planted, World, draw
from trace_assets.diagnosis.contrast import contrast_matrix
from trace_assets.settings import ContrastSection
from trace_assets.stats.power import GapDesign, gap_power
from trace_assets.stats.tests import benjamini_hochberg

POOL, PICKED = 40, 8
"""Proposals without any meaning, and how many with the largest gaps become candidates."""
PICKED_IDLE = World(
    "nothing is lacking",
    tasks=100,
    trials=4,
    planted=tuple(
        Planted(f"idle_{place:02}", needed=0.3 + 0.6 * place / POOL, lack=0.15 + 0.5 * (place % 5) / 5)
        for place in range(POOL)
    ),
    failing=0.4,
)


@dataclass(frozen=True)
class Picked:
    """How often something is found where nothing is, by what the picked are corrected for.

    Attributes:
        uncorrected: For the picked alone.
        considered: For all proposals they were picked among.
        halved: For the picked alone, picked on one half of the tasks and tested on the other.
    """

    uncorrected: Share
    considered: Share
    halved: Share


def pick(studies: int, seed: int = 0) -> Picked:
    """Draw studies without a deficit, pick the largest gaps, and see how often a q value is below 0.05."""
    section = ContrastSection(resamples=100, permutations=1000)
    hits = np.zeros(3, dtype=np.int64)
    for number in range(studies):
        matrix = draw(PICKED_IDLE, np.random.default_rng([seed, 2, number])).matrix
        rows = contrast_matrix(matrix, section, "world")
        best = sorted(rows, key=lambda row: -(row.gap or 0.0))[:PICKED]
        p_values = [row.p_value for row in best]
        half = np.arange(PICKED_IDLE.tasks // 2)
        first = contrast_matrix(matrix.draw(half), section, "world")
        order = sorted(range(POOL), key=lambda place: -(first[place].gap or 0.0))[:PICKED]
        second = contrast_matrix(matrix.draw(half + len(half)).take(order), section, "world")
        for place, q_values in enumerate(
            (
                benjamini_hochberg(p_values),
                benjamini_hochberg(p_values, POOL),
                [row.q_value for row in second],
            )
        ):
            hits[place] += any(q is not None and q <= 0.05 for q in q_values)
    return Picked(*(Share(int(count), studies) for count in hits))


# Power by gap and size of the study: what the planner says, and what studies reach.


STRENGTHS = ((0.30, 0.15), (0.30, 0.35), (0.35, 0.45), (0.40, 0.60))
"""Share of trials that lack the capability, and what a lack costs: gaps of about 0.1 to 0.45."""
SIZES = (25, 50, 100, 200)
"""Tasks, four trials each."""
SPREAD = 0.3
IDLE = 3


@dataclass(frozen=True)
class Reached:
    """Power at one strength and size.

    Attributes:
        gap: True gap.
        coverage: True coverage.
        tasks: Tasks of a study.
        planned: What the planner says.
        kept: How often studies selected the deficit.
    """

    gap: float
    coverage: float
    tasks: int
    planned: float
    kept: Share


def power_curve(
    studies: int, seed: int = 0, tick: Callable[[int], None] = lambda done: None
) -> list[Reached]:
    """Return the power at every strength and size, from so many studies each."""
    reached = []
    for lack, cost in STRENGTHS:
        planted = Planted("deficit", needed=0.5, lack=lack, cost=cost, spread=SPREAD)
        idle = tuple(Planted(f"idle_{place}") for place in range(IDLE))
        world = World("power", tasks=100, trials=4, planted=(planted, *idle))
        truth, _ = true_figures(world, seed)
        failed = draw(world, np.random.default_rng([seed, 3]), 50_000).matrix.failed
        design = GapDesign(
            gap=truth["deficit", "gap"],
            er_passed=truth["deficit", "er_passed"],
            coverage=truth["deficit", "coverage"],
            pass_rate=1 - float(failed.mean()),
            trials=world.trials,
            icc=SPREAD,
            considered=1 + IDLE,
        )
        for tasks in SIZES:
            outcome = repeat(
                replace(world, tasks=tasks), studies, seed, section=ContrastSection(resamples=200)
            )
            reached.append(
                Reached(design.gap, design.coverage, tasks, gap_power(design, tasks), outcome.kept["deficit"])
            )
            tick(len(reached))
    return reached
