"""`python -m tests.simulations.chance`: power with and without comparing with shuffled outcomes."""

from __future__ import annotations

import argparse
from dataclasses import replace

from tests.simulations.power import IDLE, SPREAD, STRENGTHS
from tests.simulations.repeat import Share, repeat
from tests.simulations.world import Planted, World
from trace_assets.settings import ContrastSection

SHUFFLES = 199
"""Of each study: fewer than in the stage, and as strict (see `chance.Null.share`)."""
SIZES = (25, 50, 100)


def main() -> None:
    """Print the share of studies that keep a deficit, and that keep anything where there is none."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulations.chance", description=__doc__)
    parser.add_argument("--studies", type=int, default=200, help="studies a world")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(f"{'lack, cost':12} {'tasks x 4':>9} {'thresholds and q':>24} {'held against shuffles':>24}")
    for lack, cost in ((0.30, 0.0), *STRENGTHS[1:]):
        planted = Planted("deficit", needed=0.5, lack=lack, cost=cost, spread=SPREAD)
        idle = tuple(Planted(f"idle_{place}") for place in range(IDLE))
        world = World("power", tasks=100, trials=4, planted=(planted, *idle))
        for tasks in SIZES:
            shares: list[Share] = []
            for shuffles in (0, SHUFFLES):
                outcome = repeat(
                    replace(world, tasks=tasks),
                    options.studies,
                    options.seed,
                    section=ContrastSection(resamples=200),
                    shuffles=shuffles,
                )
                shares.append(outcome.kept["deficit"])
            print(f"{lack:.2f}, {cost:.2f}   {tasks:9} {shares[0]!s:>24} {shares[1]!s:>24}", flush=True)


if __name__ == "__main__":
    main()
