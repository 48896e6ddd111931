"""How many tasks does a diagnosis need? The selection of a home, repeated on parts of its tasks.

    python -m tests.bench.few_tasks HOME... --tasks 24 48 72 --draws 50

Tasks are drawn without replacement, each with all its trials; candidates, their labels and their repairs are
the home's own, so what is asked is whether they are kept, and not whether they are proposed. Prints for each
number of tasks in how many draws each capability that the home keeps is kept, or promising.
"""

from __future__ import annotations

import argparse
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np

from trace_assets.assets.selected_capabilities import _candidates
from trace_assets.diagnosis.contrast import contrast_matrix
from trace_assets.diagnosis.repair.shares import decisive_shares
from trace_assets.diagnosis.selection import select_matrix
from trace_assets.diagnosis.stability import PERMUTATIONS, RESAMPLES, Sections, _null, columns_of
from trace_assets.records import Repair, SelectedCapability
from trace_assets.resources.analysts import evidence_by_target
from trace_assets.settings import Settings
from trace_assets.stats.intervals import wilson
from trace_assets.store import Home
from trace_assets.study import Study

SHUFFLES = 199


def kept_of(study: Study, n: int, draws: int) -> tuple[Counter[str], Counter[str], int]:
    """Count draws of `n` tasks: by capability that the home keeps those that keep it, those to which it is
    promising, and those that keep all of them.
    """
    settings = study.settings
    quick = settings.contrast.model_copy(update={"resamples": RESAMPLES, "permutations": PERMUTATIONS})
    sections = Sections(settings.discovery, quick, settings.selection)
    wanted = {row.capability_id for row in study.store.read(SelectedCapability) if row.kept}
    repairs = study.store.read(Repair)
    kept, promising, whole = Counter[str](), Counter[str](), 0
    (evidence,) = evidence_by_target(study, with_causes=True)
    everything = _candidates(study, evidence)
    matrix = everything.matrix
    tasks = int(matrix.tasks.max()) + 1
    for draw in range(draws):
        drawn = np.random.default_rng([n, draw]).permutation(tasks)[:n]
        part = matrix.draw(drawn)
        rows = contrast_matrix(part, quick, evidence.target, considered=everything.considered)
        shares = decisive_shares(part, repairs, evidence.target, live=True)
        columns = columns_of(matrix.tasks, drawn)
        decided = select_matrix(
            rows,
            part,
            settings.selection,
            decisive={row.capability_id: row for row in shares},
            null=partial(_null, everything, part, columns, sections, SHUFFLES),
        )
        now = {row.capability_id for row in decided if row.kept} & wanted
        kept.update(now)
        promising.update({row.capability_id for row in decided if row.verdict == "promising"} & wanted)
        whole += now == wanted
    return kept, promising, whole


def main() -> None:
    """Print a line for each home and number of tasks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("homes", nargs="+", type=Path)
    parser.add_argument("--tasks", nargs="+", type=int, default=[24, 48, 72])
    parser.add_argument("--draws", type=int, default=50)
    said = parser.parse_args()
    for n in said.tasks:
        kept, promising, whole = Counter[str](), Counter[str](), 0
        for home in said.homes:
            found = kept_of(Study(Home.open(home, writable=False), Settings()), n, said.draws)
            kept, promising, whole = kept + found[0], promising + found[1], whole + found[2]
        draws = said.draws * len(said.homes)
        low, high = wilson(whole, draws)
        print(f"{n} tasks, {draws} draws: all kept in {whole / draws:.2f} [{low:.2f}, {high:.2f}]")
        for name, count in kept.most_common():
            print(f"  {name}: kept {count / draws:.2f}, promising {promising[name] / draws:.2f}")


if __name__ == "__main__":
    main()
