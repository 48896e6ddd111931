"""`python -m tests.simulations`: simulate studies and write `docs/studies.md`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.simulations.page import Results, write_page
from tests.simulations.power import pick, power_curve
from tests.simulations.repeat import measure, repeat
from tests.simulations.world import WORLDS


def main() -> None:
    """Run all studies and write the page; progress goes to standard error."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulations", description=__doc__)
    parser.add_argument("--studies", type=int, default=1000, help="studies a world")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("docs"), help="folder of the page")
    options = parser.parse_args()
    if options.studies < 20:
        parser.error("--studies must be at least 20: fewer say nothing")
    start = time.perf_counter()

    def say(words: str) -> None:
        print(f"{time.perf_counter() - start:6.0f} s  {words}", file=sys.stderr, flush=True)

    outcomes = []
    for world in WORLDS:
        outcomes.append(repeat(world, options.studies, options.seed))
        say(f"{options.studies} studies: {world.name}")
    picked = pick(max(20, options.studies // 4), options.seed)
    say("picking candidates")
    reached = power_curve(max(20, options.studies // 5), options.seed)
    say("power")
    results = Results(
        command=f"python -m tests.simulations --studies {options.studies} --seed {options.seed}",
        outcomes=outcomes,
        picked=picked,
        reached=reached,
        timings=measure(),
    )
    say(f"written: {write_page(results, options.out)}")


if __name__ == "__main__":
    main()
