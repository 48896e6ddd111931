"""A world in which it is known what the agent lacks, and studies drawn from it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trace_assets.diagnosis.label_matrix import LACKING, NA, NO_EVIDENCE, PRESENT, LabelMatrix, reconcile

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Planted:
    """One capability of the world.

    Attributes:
        name: Its id.
        needed: Share of tasks that need it.
        needed_slope: How much more often hard tasks need it, per standard deviation of difficulty.
        lack: Mean share of trials that lack it where it is needed.
        lack_slope: How much more often it is lacking in hard tasks.
        spread: How much tasks differ in it: 0 not at all, towards 1 all or nothing.
        cost: Probability that a lack spoils the run; 0 plants no deficit.
        twin_of: Name of an earlier capability whose label it repeats but for 8 % of the runs: the same
            deficit under another name.
    """

    name: str
    needed: float = 0.5
    needed_slope: float = 0.0
    lack: float = 0.4
    lack_slope: float = 0.0
    spread: float = 0.3
    cost: float = 0.0
    twin_of: str = ""


@dataclass(frozen=True)
class World:
    """All that studies are drawn from.

    Attributes:
        name: For the report.
        tasks: Tasks in a study.
        trials: Trials of each task.
        planted: Its capabilities, up to 26.
        failing: Failure rate of a task of middling difficulty when nothing is lacking.
        difficulty: Standard deviation of that rate between tasks.
        passes: Labelling passes.
        error: Probability that a pass gives one of the two wrong labels.
    """

    name: str
    tasks: int
    trials: int
    planted: tuple[Planted, ...]
    failing: float = 0.25
    difficulty: float = 0.12
    passes: int = 1
    error: float = 0.0


@dataclass(frozen=True)
class Drawn:
    """One study: what a labeller saw, and what was so.

    Attributes:
        matrix: Labels beside outcomes, as the diagnosis gets them.
        true: True labels, shape `(capabilities, runs)`.
    """

    matrix: LabelMatrix
    true: NDArray[np.int8] = field(repr=False)


DEFICITS = (
    Planted("deep", needed=0.5, lack=0.5, cost=0.6),
    Planted("rare", needed=0.25, lack=0.6, cost=0.7),
    Planted("mild", needed=0.6, lack=0.35, cost=0.4, needed_slope=0.1),
    Planted("other_name", twin_of="deep"),
    Planted("idle", needed=0.5, lack=0.4),
    Planted("idle_in_hard", needed=0.4, lack=0.3, needed_slope=0.2),
    Planted("idle_often", needed=0.9, lack=0.7),
    Planted("idle_seldom", needed=0.4, lack=0.08),
    Planted("hard_not_lacking", needed=0.8, lack=0.4, lack_slope=0.25),
)
"""Three deficits, one of them under two names; four capabilities without any meaning, one of which is needed
more in hard tasks; and one that is lacking more often in hard tasks and costs nothing."""

WORLDS = (
    World("four trials a task", tasks=150, trials=4, planted=DEFICITS),
    World("one trial a task", tasks=400, trials=1, planted=DEFICITS),
    World("few tasks", tasks=50, trials=4, planted=DEFICITS),
    World("two passes, 5 % errors", tasks=150, trials=4, planted=DEFICITS, passes=2, error=0.05),
    World("three passes, 10 % errors", tasks=150, trials=4, planted=DEFICITS, passes=3, error=0.10),
)


def draw(world: World, rng: np.random.Generator, tasks: int | None = None) -> Drawn:
    """Draw a study.

    Args:
        world: What is planted.
        rng: Source of randomness.
        tasks: How many tasks; those of the world unless given.

    >>> study = draw(WORLDS[0], np.random.default_rng(0))
    >>> study.matrix.codes.shape, bool((study.matrix.codes == study.true).all())
    ((9, 600), True)
    """
    n = tasks or world.tasks
    hardness = rng.standard_normal(n)
    shape = (n, world.trials)
    true = np.full((len(world.planted), n, world.trials), NA, dtype=np.int8)
    spared = np.broadcast_to(
        1 - np.clip(world.failing + world.difficulty * hardness, 0.02, 0.98)[:, None], shape
    ).copy()
    place = {one.name: row for row, one in enumerate(world.planted)}
    for row, one in enumerate(world.planted):
        if one.twin_of:
            same = rng.random(shape) >= 0.08
            other = rng.choice(np.array([NA, PRESENT, LACKING], dtype=np.int8), size=shape)
            true[row] = np.where(same, true[place[one.twin_of]], other)
            continue
        needs = rng.random(n) < np.clip(one.needed + one.needed_slope * hardness, 0.02, 0.98)
        mean = np.clip(one.lack + one.lack_slope * hardness, 0.02, 0.98)
        weight = (1 - one.spread) / one.spread
        prone = rng.beta(mean * weight, (1 - mean) * weight)
        lacking = rng.random(shape) < prone[:, None]
        true[row] = np.where(needs[:, None], np.where(lacking, LACKING, PRESENT), NA)
        spared *= np.where(true[row] == LACKING, 1 - one.cost, 1.0)
    failed = (rng.random(shape) >= spared).ravel()
    flat = true.reshape(len(world.planted), -1)
    votes = np.repeat(flat[:, :, None], world.passes, axis=2)
    if world.error:
        wrong = rng.random(votes.shape) < world.error
        votes = np.where(wrong, (votes + rng.integers(1, 3, votes.shape)) % 3, votes).astype(np.int8)
    codes, posterior = reconcile(votes)
    matrix = LabelMatrix(
        capabilities=tuple(one.name for one in world.planted),
        trajectories=(),
        tasks=np.repeat(np.arange(n), world.trials),
        failed=failed,
        codes=codes,
        evidence=np.full(codes.shape, NO_EVIDENCE, dtype=np.int32),
        coders=tuple(("x", turn) for turn in range(world.passes)),
        votes=votes if world.passes > 1 else None,
        posterior=posterior,
    )
    return Drawn(matrix, flat)
