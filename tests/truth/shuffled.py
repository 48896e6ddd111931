"""`python -m tests.truth.shuffled`: how often is something kept, or promising, where outcomes mean nothing?

Each set of published runs, and all runs of each target, are diagnosed as they are; then outcomes are shuffled
and picking, contrast and selection repeated. What is kept then is a false alarm, and so is what is promising.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from tests.formats.reading import read_trajectories
from tests.truth.outcome import by_detectors
from tests.truth.readings import missing_data, result_files
from tests.truth.scores import Share
from trace_assets.diagnosis.attribution.case import Known
from trace_assets.diagnosis.contrast import considered_tests
from trace_assets.diagnosis.detector_analyst import DetectorAnalyst
from trace_assets.diagnosis.expected.facts import Facts
from trace_assets.diagnosis.expected.suspects import DOUBTERS
from trace_assets.diagnosis.label_matrix import LabelMatrix
from trace_assets.diagnosis.stability import PERMUTATIONS, RESAMPLES, Candidates, Sections, _on_shuffles
from trace_assets.diagnosis.triage import triage
from trace_assets.records import Task, Trajectory
from trace_assets.settings import Selection


def study_of(trajectories: Sequence[Trajectory], tasks: Sequence[Task]) -> Candidates:
    """Return the study of one set, with all that detectors propose on it."""
    target = trajectories[0].target
    known = Known.of(trajectories, {task.task_id: task for task in tasks}, DOUBTERS)
    rows = triage(trajectories, known=known)
    counted = {
        row.trajectory_id
        for row in rows
        if row.outcome == "passed" or (row.outcome == "failed" and row.fault == "agent")
    }
    analyst = by_detectors(None, Facts(trajectories, known.tasks).policy.text)
    assert isinstance(analyst, DetectorAnalyst)
    own = [one for one in trajectories if one.trajectory_id in counted]
    capabilities = analyst.discover(own)
    matrix = LabelMatrix.build(analyst.label([one.blind() for one in own], capabilities), rows, target)
    by_id = {row.capability_id: row for row in capabilities}
    by_run = {one.trajectory_id: one for one in own}
    pool = analyst.pool([by_run[name] for name in matrix.trajectories])
    candidates = [by_id[name] for name in matrix.capabilities]
    return Candidates(target, candidates, matrix, pool, considered_tests(capabilities))


def found_by_chance(
    study: Candidates, sections: Sections, *, shuffles: int, seed: int = 0
) -> list[tuple[int, int]]:
    """Return how many capabilities are kept, and promising, in each of some studies with shuffled outcomes.

    Args:
        study: What to repeat.
        sections: Settings of discovery, contrast and selection.
        shuffles: How many studies.
        seed: The same seed gives the same studies.
    """
    quick = sections.contrast.model_copy(update={"resamples": RESAMPLES, "permutations": PERMUTATIONS})
    plan = replace(sections, contrast=quick)
    return [(run.n_kept, run.n_promising) for run in _on_shuffles(study, plan, shuffles, seed)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the share of shuffled studies that keep or promise something, with Wilson's 95 % interval."""
    parser = argparse.ArgumentParser(prog="python -m tests.truth.shuffled", description=__doc__)
    parser.add_argument("--shuffles", type=int, default=200, help="shuffled studies a set")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    if options.shuffles < 20:
        parser.error("--shuffles must be at least 20: fewer say nothing")
    reason = missing_data()
    if reason:
        print(f"skipped: {reason}.")
        return
    imported = read_trajectories(result_files())
    sets: dict[str, list[Trajectory]] = defaultdict(list)
    for one in imported.trajectories:
        sets[one.source.partition(":")[2].removesuffix(".json")].append(one)
        sets[one.target].append(one)
    sums = [Share(0, 0)] * 4
    columns = ("without max_chance: kept", "promising", "kept", "promising")
    print(f"{'set':28} {'runs':>5} {' '.join(f'{name:>26}' for name in columns)}")
    for name, own in sorted(sets.items()):
        study = study_of(own, imported.tasks)
        shares = []
        for selection in (Selection(max_chance=1), Selection()):
            found = found_by_chance(
                study, Sections(selection=selection), shuffles=options.shuffles, seed=options.seed
            )
            shares += [Share(sum(n > 0 for n in some), len(some)) for some in zip(*found, strict=True)]
        sums = [total + one for total, one in zip(sums, shares, strict=True)]
        row = " ".join(f"{one!s:>26}" for one in shares)
        print(f"{name:28} {len(study.matrix.failed):5} {row}", flush=True)
    print(f"{'all':28} {'':5} {' '.join(f'{one!s:>26}' for one in sums)}")


if __name__ == "__main__":
    main()
