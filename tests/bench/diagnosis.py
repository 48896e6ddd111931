"""`python -m tests.bench.diagnosis [N]`: how long detectors and contrast take on N trajectories (10,000).

They are the published runs of the folder that `TRACE_TAU2_DATA` names, repeated under other ids and tasks:
every copy is a task of its own, so that nothing is learned or resampled less often than on so many real ones.
Targets are diagnosed in two processes, as many as there are cores on a small machine; CPU seconds are told
beside the clock's, which another program's load makes longer.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

from tests.formats.reading import Imported, read_trajectories
from trace_assets.diagnosis.attribution.case import Known
from trace_assets.diagnosis.contrast import considered_tests, contrast_matrix
from trace_assets.diagnosis.detector_analyst import DetectorAnalyst
from trace_assets.diagnosis.expected.facts import Facts
from trace_assets.diagnosis.label_matrix import LabelMatrix
from trace_assets.diagnosis.triage import triage
from trace_assets.records import Task, Trajectory
from trace_assets.settings import ContrastSection, Discovery

PROCESSES = 2


def repeated(
    runs: Sequence[Trajectory], tasks: Sequence[Task], times: int
) -> tuple[list[Trajectory], list[Task]]:
    """Return runs and tasks so many times, each copy under ids of its own.

    >>> repeated([], [], 3)
    ([], [])
    """
    return (
        [
            one.model_copy(
                update={"trajectory_id": f"{one.trajectory_id}#{n}", "task_id": f"{one.task_id}#{n}"}
            )
            for n in range(times)
            for one in runs
        ],
        [task.model_copy(update={"task_id": f"{task.task_id}#{n}"}) for n in range(times) for task in tasks],
    )


def diagnose(job: tuple[str, int]) -> dict[str, float]:
    """Diagnose one target, its runs repeated, and return CPU seconds by stage."""
    target, times = job
    imported = _imported(target)
    runs, tasks = repeated(imported.trajectories, imported.tasks, times)
    by_id = {task.task_id: task for task in tasks}
    marks = [("", time.process_time())]
    known = Known.of(runs, by_id)
    rows = triage(runs, known=known)
    marks.append(("triage", time.process_time()))
    analyst = DetectorAnalyst(Discovery(), policy=Facts(runs[:1], by_id).policy.text)
    usable = {row.trajectory_id for row in rows if row.outcome == "passed" or row.fault == "agent"}
    capabilities = analyst.discover([one for one in runs if one.trajectory_id in usable])
    marks.append(("discover", time.process_time()))
    labels = analyst.label([one.blind() for one in runs], capabilities)
    marks.append(("label", time.process_time()))
    matrix = LabelMatrix.build(labels, rows, target)
    contrast_matrix(matrix, ContrastSection(), target, considered=considered_tests(capabilities))
    marks.append(("contrast", time.process_time()))
    spent = {name: now - before for (_, before), (name, now) in pairwise(marks)}
    return {"runs": len(runs), **spent}


def _imported(target: str) -> Imported:
    whole = read_trajectories(sorted(Path(os.environ["TRACE_TAU2_DATA"]).glob("*.json")))
    return Imported(
        trajectories=[one for one in whole.trajectories if one.target == target],
        tasks=[one for one in whole.tasks if one.target == target],
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the seconds by target and stage, and of all."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.diagnosis", description=__doc__)
    parser.add_argument("runs", type=int, nargs="?", default=10_000)
    options = parser.parse_args(arguments)
    if "TRACE_TAU2_DATA" not in os.environ:
        sys.exit("TRACE_TAU2_DATA is not set: it names a folder of tau2 simulation files")
    counts: dict[str, int] = defaultdict(int)
    for one in read_trajectories(sorted(Path(os.environ["TRACE_TAU2_DATA"]).glob("*.json"))).trajectories:
        counts[one.target] += 1
    times = max(1, round(options.runs / sum(counts.values())))
    started = time.monotonic()
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        jobs = [(target, times) for target in sorted(counts, key=lambda one: -counts[one])]
        for (target, _), spent in zip(jobs, pool.map(diagnose, jobs), strict=True):
            own = ", ".join(f"{name} {value:.1f}" for name, value in spent.items() if name != "runs")
            detectors = sum(value for name, value in spent.items() if name not in ("runs", "triage"))
            print(
                f"{target:20} {spent['runs']:6.0f} runs, CPU s: {own}; detectors and contrast {detectors:.1f}"
            )
    took, load = time.monotonic() - started, os.getloadavg()[0]
    print(f"{sum(counts.values()) * times} runs in {took:.1f} s by the clock (load {load:.1f})")


if __name__ == "__main__":
    main()
