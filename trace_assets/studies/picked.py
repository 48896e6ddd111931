"""What it costs to pick candidates by their outcome and then to test them on the same trajectories."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trace_assets.diagnosis.contrast import contrast_matrix
from trace_assets.settings import ContrastSection
from trace_assets.statistics.multiplicity import benjamini_hochberg
from trace_assets.studies.repeat import Share
from trace_assets.studies.world import Planted, World, draw

POOL, PICKED = 40, 8
"""Proposals without any meaning, and how many with the largest gaps become candidates."""
IDLE = World(
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
        matrix = draw(IDLE, np.random.default_rng([seed, 2, number])).matrix
        rows = contrast_matrix(matrix, section, "world")
        best = sorted(rows, key=lambda row: -(row.gap or 0.0))[:PICKED]
        p_values = [row.p_value for row in best]
        half = np.arange(IDLE.tasks // 2)
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
