"""Power by gap and size of the study: what the planner says, and what studies reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from trace_assets.settings import ContrastSection
from trace_assets.statistics.power import GapDesign, gap_power
from trace_assets.studies.repeat import Share, repeat, true_figures
from trace_assets.studies.world import Planted, World, draw

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
